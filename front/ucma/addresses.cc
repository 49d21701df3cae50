#include "front/ucma/addresses.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "front/verbs/device.h"
#include "host/config.h"
#include "host/devices/roce_interfaces.h"

namespace verbena::front::ucma {

bool SocketEndpoint::any() const {
  return v6 ? address == IpAddress{} : address == IpAddress::v4({0, 0, 0, 0});
}

bool is_loopback(const IpAddress& address) {
  constexpr IpAddress kV6{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return address.is_v4() ? address.v4_bytes()[0] == 127 : address == kV6;
}

std::optional<SocketEndpoint> parse_endpoint(const void* bytes, std::size_t size) {
  sa_family_t family = 0;
  if (size < sizeof family) return std::nullopt;
  std::memcpy(&family, bytes, sizeof family);
  if (family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in in{};
    std::memcpy(&in, bytes, sizeof in);
    std::array<std::uint8_t, 4> address{};
    std::memcpy(address.data(), &in.sin_addr, address.size());
    return SocketEndpoint{
        .v6 = false, .address = IpAddress::v4(address), .port = ntohs(in.sin_port)};
  }
  if (family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 in{};
    std::memcpy(&in, bytes, sizeof in);
    IpAddress::Bytes address{};
    std::memcpy(address.data(), &in.sin6_addr, address.size());
    return SocketEndpoint{.v6 = true,
                          .address = IpAddress{address},
                          .port = ntohs(in.sin6_port),
                          .scope = in.sin6_scope_id};
  }
  return std::nullopt;
}

std::size_t put_endpoint(void* to, bool v6, const std::optional<IpAddress>& address,
                         std::uint16_t port, unsigned scope) {
  if (v6) {
    sockaddr_in6 out{};
    out.sin6_family = AF_INET6;
    out.sin6_port = htons(port);
    if (address) {
      std::memcpy(&out.sin6_addr, address->bytes().data(), sizeof out.sin6_addr);
      if (address->is_link_local()) out.sin6_scope_id = scope;
    }
    std::memcpy(to, &out, sizeof out);
    return sizeof out;
  }
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  if (address) std::memcpy(&out.sin_addr, &address->bytes()[12], sizeof out.sin_addr);
  std::memcpy(to, &out, sizeof out);
  return sizeof out;
}

Result<host::Device> device_with(const IpAddress& address, unsigned scope) {
  for (const host::Device& device : devices_now()) {
    if (scope != 0 && address.is_link_local() && scope != device.interface_index) continue;
    if (std::find(device.gids.begin(), device.gids.end(), address) != device.gids.end()) {
      return device;
    }
  }
  const auto other = host::roce_interface_with(address);
  if (other && !host::config().only) {
    return Error{kAnothersAddress,
                 address.text() + " is an address of " + other->device + ", which is not ours"};
  }
  return Error{EADDRNOTAVAIL,
               "no device has the address " + address.text() + "; see \"verbena devices\""};
}

}  // namespace verbena::front::ucma
