// The address of a host.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "rdma++/error.h"
#include "rdma++/gid_table.h"

namespace rdma {

/// Where a host can be reached: an IPv4 or IPv6 address and a port.
class SocketAddress {
 public:
  SocketAddress() { storage_.ss_family = AF_UNSPEC; }
  explicit SocketAddress(const sockaddr* raw) {
    std::memcpy(&storage_, raw,
                raw->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  }

  /// Of a name, "192.0.2.1" or "fe80::1%eth0". Throws when there is no such host.
  [[nodiscard]] static SocketAddress of(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int code = getaddrinfo(host.c_str(), nullptr, &hints, &list);
    if (code != 0) throw Error{"getaddrinfo", concat("host \"", host, '"'), 0, gai_strerror(code)};
    SocketAddress result{list->ai_addr};
    freeaddrinfo(list);
    result.set_port(port);
    return result;
  }
  /// Of a row of a GID table.
  [[nodiscard]] static SocketAddress of(const GidEntry& row, std::uint16_t port) {
    SocketAddress result;
    if (row.gid.is_ipv4()) {
      result.storage_.ss_family = AF_INET;
      std::memcpy(&result.v4().sin_addr, row.gid.bytes.data() + 12, 4);
    } else {
      result.storage_.ss_family = AF_INET6;
      std::memcpy(&result.v6().sin6_addr, row.gid.bytes.data(), 16);
      if (row.gid.is_link_local()) result.v6().sin6_scope_id = row.interface;
    }
    result.set_port(port);
    return result;
  }
  /// Every address of this machine: as IPv6, which takes IPv4 as well, where the kernel has it.
  [[nodiscard]] static SocketAddress any(std::uint16_t port) {
    const int probe = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe >= 0) close(probe);
    SocketAddress result;
    result.storage_.ss_family = probe >= 0 ? AF_INET6 : AF_INET;  // zeros are "any" in both
    result.set_port(port);
    return result;
  }

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const {
    return ntohs(family() == AF_INET6 ? v6().sin6_port : v4().sin_port);
  }
  void set_port(std::uint16_t port) {
    (family() == AF_INET6 ? v6().sin6_port : v4().sin_port) = htons(port);
  }
  [[nodiscard]] bool is_loopback() const {
    if (family() == AF_INET) return (ntohl(v4().sin_addr.s_addr) >> 24) == 127;
    return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6().sin6_addr);
  }
  /// As devices know it: an IPv4 address is ::ffff:a.b.c.d there.
  [[nodiscard]] Gid gid() const {
    Gid gid = *Gid::parse("0.0.0.0");
    if (family() == AF_INET6) {
      std::memcpy(gid.bytes.data(), &v6().sin6_addr, 16);
    } else {
      std::memcpy(gid.bytes.data() + 12, &v4().sin_addr, 4);
    }
    return gid;
  }
  [[nodiscard]] sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage_); }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const {
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  /// "192.0.2.1:7471" or "[fe80::1]:7471"
  [[nodiscard]] std::string to_string() const {
    char room[INET6_ADDRSTRLEN] = "";
    if (family() == AF_INET6) {
      inet_ntop(AF_INET6, &v6().sin6_addr, room, sizeof room);
      return concat('[', room, "]:", port());
    }
    inet_ntop(AF_INET, &v4().sin_addr, room, sizeof room);
    return concat(room, ':', port());
  }

 private:
  [[nodiscard]] sockaddr_in& v4() { return reinterpret_cast<sockaddr_in&>(storage_); }
  [[nodiscard]] sockaddr_in6& v6() { return reinterpret_cast<sockaddr_in6&>(storage_); }
  [[nodiscard]] const sockaddr_in& v4() const {
    return reinterpret_cast<const sockaddr_in&>(storage_);
  }
  [[nodiscard]] const sockaddr_in6& v6() const {
    return reinterpret_cast<const sockaddr_in6&>(storage_);
  }

  sockaddr_storage storage_{};
};

}  // namespace rdma
