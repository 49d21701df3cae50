#pragma once

// This process among those of its user in its network namespace: its slot, its ports of rdma_cm,
// and the others, who see each other's deaths. Knows nothing of how frames move.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/service_id.h"
#include "registry/joining.h"
#include "registry/peers.h"
#include "registry/port_binding.h"
#include "registry/port_table.h"
#include "registry/shared_table.h"
#include "system/fd.h"

namespace verbena::registry {

/// Told when what the registry says has changed. A wire may steer by it.
class Watcher {
 public:
  /// A process has died; others may have other places now.
  virtual void members_changed() {}
  /// We began or ceased to listen on a port.
  virtual void listeners_changed() {}
  /// The process of `slot` has died. Told if this one had met it; its slot is still held, perhaps
  /// by another process already.
  virtual void member_died([[maybe_unused]] std::uint32_t slot) {}

 protected:
  ~Watcher() = default;
};

/// What serve() brings.
class Visitors {
 public:
  /// See PeerEvents.
  virtual void message(const PeerMessage& message) = 0;
  [[nodiscard]] virtual Account account(std::uint32_t queue_pairs) = 0;

 protected:
  ~Visitors() = default;
};

/// Not thread-safe, but for fd().
class Registry {
 public:
  /// Bytes of `memory` that join() needs: the longest train of frames, and what a wire says of it.
  static constexpr std::size_t kMessageBytes = (1u << 16) + 256;

  /// Claims a slot. Messages of other processes lie in `memory` when they are shown.
  static Result<std::unique_ptr<Registry>> join(std::span<std::uint8_t> memory);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// QPNs whose slot() is this are ours, and ids of connections too. Never 0.
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] SharedTable& table() { return table_; }
  /// It outlives the registry or is taken away.
  void watch(Watcher& watcher) { watchers_.push_back(&watcher); }
  void unwatch(Watcher& watcher) { std::erase(watchers_, &watcher); }

  // Ports of rdma_cm, which all processes of the registry share.
  /// EADDRINUSE: another binding is in the way. EADDRNOTAVAIL: no ephemeral port is free.
  /// ENOMEM: too many are bound.
  Result<BoundPort> bind_port(const PortBinding& wanted);
  /// From now on requests for it come here. EADDRINUSE: another binding listens there.
  Status listen_port(PortId id);
  void release_port(PortId id);
  /// Who gets requests for `service` at `address`; nullopt: nobody listens there.
  [[nodiscard]] std::optional<std::uint32_t> listener_of(ServiceId service,
                                                         const IpAddress& address) const {
    return registry::listener_of(table_, service, address);
  }
  /// Whether a process has that port, listening or not.
  [[nodiscard]] bool is_bound(ServiceId service, const IpAddress& address) const {
    return registry::is_bound(table_, service, address);
  }
  /// Whether a live process has the slot.
  [[nodiscard]] bool held(std::uint32_t slot) const { return table_.held(slot); }

  /// From now on, the death of that process is seen here, and ours there.
  void meet(std::uint32_t slot);
  [[nodiscard]] bool has_met(std::uint32_t slot) const { return peers_.knows(slot); }

  /// A message of a wire to the same wire of the process that holds `slot`. False: it can't take it
  /// now, or is dead. Copies of the descriptors go along, DescriptorRoom::kMost at most.
  bool pass(std::uint32_t slot, std::uint8_t wire, std::span<const std::uint8_t> head,
            std::span<const std::uint8_t> body, std::span<const int> descriptors = {});
  /// Takes what other processes say and sees who died, a bounded amount. Call when fd() is
  /// readable.
  void serve(Visitors& visitors);
  [[nodiscard]] int fd() const { return epoll_.get(); }
  /// Looks for deaths that a hang-up left in doubt. Call when next_deadline() has come.
  void work(Instant now);
  [[nodiscard]] Instant next_deadline() const;

  /// In a forked child: closes every descriptor, tells nobody. The object is then only good for
  /// destruction.
  void abandon();

 private:
  class Events;

  Registry(Registration registration, Fd epoll, std::span<std::uint8_t> memory);
  /// Meets the nearest live process on either side, by the number of its slot. So each death is
  /// seen by somebody, as long as one process is left: if the nearest one turns out to be dead, the
  /// next one is met.
  void meet_neighbours();
  /// The process that held `slot` as `tenancy` has ended.
  void died(std::uint32_t slot, Tenancy tenancy);
  void tell_members_changed();
  void tell_listeners_changed();
  void close();

  std::uint32_t slot_;
  bool abandoned_ = false;
  bool neighbour_died_ = false;  // perhaps: somebody did
  Fd epoll_;
  SharedTable table_;
  PortTable ports_;
  Peers peers_;
  std::vector<Watcher*> watchers_;
};

}  // namespace verbena::registry
