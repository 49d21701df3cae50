#pragma once

// Socket addresses of the command interface, and what this host knows about them.

#include <netinet/in.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ip_address.h"
#include "base/result.h"
#include "host/devices/device.h"

namespace verbena::front::ucma {

struct SocketEndpoint {
  bool v6 = false;
  IpAddress address{};
  std::uint16_t port = 0;
  unsigned scope = 0;  // interface of a link-local address; 0: not said

  /// 0.0.0.0 or ::
  [[nodiscard]] bool any() const;
};

/// 127.0.0.0/8 or ::1
[[nodiscard]] bool is_loopback(const IpAddress& address);

/// nullopt: neither IPv4 nor IPv6, or not whole.
[[nodiscard]] std::optional<SocketEndpoint> parse_endpoint(const void* bytes, std::size_t size);

/// nullopt as address: the wildcard of the family. Returns the size of what was put.
std::size_t put_endpoint(void* to, bool v6, const std::optional<IpAddress>& address,
                         std::uint16_t port, unsigned scope);

/// The code of an error: the address is one of a device that isn't ours.
inline constexpr int kAnothersAddress = EXDEV;

/// The device with that address, as it is now. EADDRNOTAVAIL, kAnothersAddress.
[[nodiscard]] Result<host::Device> device_with(const IpAddress& address, unsigned scope);

}  // namespace verbena::front::ucma
