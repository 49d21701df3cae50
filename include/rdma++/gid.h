// The address of a port.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace rdma {

/// 16 bytes in network order. On RoCE it is an IPv6 address or, as ::ffff:a.b.c.d, an IPv4 one.
struct Gid {
  std::array<std::uint8_t, 16> bytes{};

  [[nodiscard]] static Gid from(const ibv_gid& raw) {
    Gid gid;
    std::memcpy(gid.bytes.data(), raw.raw, sizeof raw.raw);
    return gid;
  }
  [[nodiscard]] ibv_gid raw() const {
    ibv_gid gid;
    std::memcpy(gid.raw, bytes.data(), sizeof gid.raw);
    return gid;
  }

  [[nodiscard]] bool is_zero() const { return *this == Gid{}; }
  [[nodiscard]] bool is_ipv4() const {
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(bytes.data(), kMapped, sizeof kMapped) == 0;
  }
  [[nodiscard]] bool is_link_local() const { return bytes[0] == 0xfe && bytes[1] == 0x80; }
  [[nodiscard]] bool is_multicast() const {
    return bytes[0] == 0xff || (is_ipv4() && (bytes[12] & 0xf0) == 0xe0);
  }
  /// "192.0.2.1" or "fe80::1"
  [[nodiscard]] std::string to_string() const {
    char room[INET6_ADDRSTRLEN] = "";
    const bool v4 = is_ipv4();
    inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data() + (v4 ? 12 : 0), room, sizeof room);
    return room;
  }
  /// From "192.0.2.1" or "fe80::1"; nullopt when it is neither.
  [[nodiscard]] static std::optional<Gid> parse(const std::string& text) {
    Gid gid;
    if (inet_pton(AF_INET6, text.c_str(), gid.bytes.data()) == 1) return gid;
    gid = Gid{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}};
    if (inet_pton(AF_INET, text.c_str(), gid.bytes.data() + 12) == 1) return gid;
    return std::nullopt;
  }

  friend auto operator<=>(const Gid&, const Gid&) = default;
};

}  // namespace rdma
