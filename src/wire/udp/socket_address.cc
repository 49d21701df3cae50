#include "wire/udp/socket_address.h"

#include <arpa/inet.h>

#include <cstring>

namespace verbena::wire {

SocketAddress::SocketAddress(const IpAddress& address, std::uint16_t port, unsigned interface) {
  if (address.is_v4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    const auto bytes = address.v4_bytes();
    std::memcpy(&in.sin_addr, bytes.data(), bytes.size());
    std::memcpy(&storage_, &in, sizeof in);
    size_ = sizeof in;
    return;
  }
  storage_.sin6_family = AF_INET6;
  storage_.sin6_port = htons(port);
  std::memcpy(&storage_.sin6_addr, address.bytes().data(), address.bytes().size());
  if (address.needs_interface()) storage_.sin6_scope_id = interface;
  size_ = sizeof storage_;
}

IpAddress SocketAddress::address() const {
  if (storage_.sin6_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &storage_, sizeof in);
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &in.sin_addr, bytes.size());
    return IpAddress::v4(bytes);
  }
  IpAddress::Bytes bytes{};
  std::memcpy(bytes.data(), &storage_.sin6_addr, bytes.size());
  return IpAddress{bytes};
}

std::uint16_t SocketAddress::port() const { return ntohs(storage_.sin6_port); }

std::string text_of(const IpAddress& address, std::uint16_t port) {
  const auto number = std::to_string(port);
  return address.is_v4() ? address.text() + ":" + number : "[" + address.text() + "]:" + number;
}

}  // namespace verbena::wire
