#pragma once

// The addresses and multicast groups that a process receives at, each with its socket.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "base/local_address.h"
#include "base/result.h"
#include "registry/registry.h"
#include "wire/udp/receiver.h"
#include "wire/udp/reuseport_group.h"

namespace verbena::wire {

struct ReceiveAddress {
  explicit ReceiveAddress(ReceiveSocket s) : socket{std::move(s)} {}
  [[nodiscard]] unsigned interface() const { return socket.local.interface; }

  ReceiveSocket socket;
  std::optional<ReuseportGroup> group;  // none at a multicast address: everybody gets a copy
  unsigned members = 0;                 // of a multicast address
};

class ReceiveAddresses {
 public:
  /// `epoll_fd` watches all sockets.
  ReceiveAddresses(registry::Registry& registry, int epoll_fd)
      : registry_{registry}, epoll_fd_{epoll_fd} {}

  /// Idempotent. EADDRINUSE: somebody else has the port. EBUSY: in use on another interface.
  Status open(const LocalAddress& local);
  Status join(const LocalAddress& group);
  void leave(const LocalAddress& group);

  /// Calls `visit` with each address that may have frames waiting.
  template <typename Visit>
  void for_each_ready(Visit visit) {
    if (addresses_.size() == 1) {  // asking costs as much as looking
      visit(*addresses_.front());
      return;
    }
    std::array<ReceiveAddress*, kMostAtOnce> ready;
    const std::size_t count = find_ready(ready);
    for (std::size_t i = 0; i < count; ++i) visit(*ready[i]);
  }
  /// All sockets ask for the same; 0: there is none.
  [[nodiscard]] std::uint32_t receive_buffer() const;
  /// 0: not an address of ours.
  [[nodiscard]] unsigned interface_of(const IpAddress& address) const;

  /// After deaths: other processes have other places.
  void renew_groups();
  /// After listeners came or went.
  void attach_groups();
  /// Closes the sockets and tells the other processes.
  void leave_all();
  /// Closes the sockets alone.
  void close() { addresses_.clear(); }

 private:
  static constexpr std::size_t kMostAtOnce = 64;

  [[nodiscard]] std::size_t find_ready(std::span<ReceiveAddress*, kMostAtOnce> into) const;
  /// Watches its socket. What throws comes before: then nothing has changed.
  Status add(std::unique_ptr<ReceiveAddress> address);
  [[nodiscard]] ReceiveAddress* find_group(const LocalAddress& group);

  registry::Registry& registry_;
  int epoll_fd_;
  std::vector<std::unique_ptr<ReceiveAddress>> addresses_;
};

}  // namespace verbena::wire
