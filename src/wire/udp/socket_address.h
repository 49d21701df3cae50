#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/ip_address.h"
#include "base/local_address.h"

namespace verbena::wire {

/// A sockaddr of either family.
class SocketAddress {
 public:
  SocketAddress() = default;
  /// `interface` matters to addresses that mean something on one link only.
  SocketAddress(const IpAddress& address, std::uint16_t port, unsigned interface);

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }
  static constexpr socklen_t capacity() { return sizeof(sockaddr_in6); }

  /// What the kernel wrote there. Unspecified for a family other than IP.
  [[nodiscard]] IpAddress address() const;
  [[nodiscard]] std::uint16_t port() const;

 private:
  // Or the shorter sockaddr_in, which has family and port at the same place.
  sockaddr_in6 storage_{};
  socklen_t size_ = 0;
};

/// "10.0.0.1:4791" or "[fe80::1]:4791", for messages.
[[nodiscard]] std::string text_of(const IpAddress& address, std::uint16_t port);

}  // namespace verbena::wire
