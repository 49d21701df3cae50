// What two queue pairs must know of each other before they can speak, when no rdma_cm tells them.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "rdma++/gid.h"
#include "rdma++/slice.h"
#include "rdma++/text.h"

namespace rdma {

/// One end of a connection, and the memory it offers. On the wire: 64 bytes, big-endian.
struct ConnInfo {
  static constexpr std::size_t kWireSize = 64;

  Gid gid{};              ///< RoCE goes by it
  std::uint16_t lid = 0;  ///< InfiniBand goes by it; 0 on RoCE
  std::uint32_t qpn = 0;  ///< 24 bits
  std::uint32_t psn = 0;  ///< 24 bits: of the first packet this end sends
  std::uint8_t port = 1;
  std::uint8_t sl = 0;  ///< service level
  ibv_mtu mtu = IBV_MTU_1024;
  std::uint64_t raddr = 0;
  std::uint64_t rlength = 0;
  std::uint32_t rkey = 0;

  [[nodiscard]] RemoteBuffer remote() const { return {raddr, rlength, rkey}; }
  ConnInfo& offer(const RemoteBuffer& memory) {
    raddr = memory.addr;
    rlength = memory.length;
    rkey = memory.rkey;
    return *this;
  }
  [[nodiscard]] std::string to_string() const {
    return concat("gid ", gid.to_string(), ", lid ", lid, ", qpn ", hex(qpn), ", psn ", hex(psn),
                  ", port ", int{port}, ", mtu ", 128 << mtu, ", raddr ", hex(raddr), ", rkey ",
                  hex(rkey));
  }

  using Wire = std::array<std::byte, kWireSize>;
  [[nodiscard]] Wire encode() const;
  /// nullopt: not one of ours, or values that can't be.
  [[nodiscard]] static std::optional<ConnInfo> decode(std::span<const std::byte, kWireSize> wire);

  friend bool operator==(const ConnInfo&, const ConnInfo&) = default;
};

namespace detail {
inline constexpr std::uint64_t kConnInfoMagic = 0x7264'6d61'2b2b'0001;  // "rdma++", version 1

/// Visits the fields in their order on the wire; the MTU as a number, which a peer may send any of.
template <class Info, class Number, class Field>
void each_field(Info& info, Number& mtu, Field&& field) {
  field(info.lid);
  field(info.qpn);
  field(info.psn);
  field(info.port);
  field(info.sl);
  field(mtu);
  field(info.raddr);
  field(info.rlength);
  field(info.rkey);
}
}  // namespace detail

inline ConnInfo::Wire ConnInfo::encode() const {
  Wire wire{};
  std::size_t at = 0;
  const auto put = [&](const auto& value) {
    const auto number = static_cast<std::uint64_t>(value);
    constexpr std::size_t width = sizeof(value);
    for (std::size_t i = 0; i < width; ++i) {
      wire[at++] = static_cast<std::byte>(number >> (8 * (width - 1 - i)));
    }
  };
  put(detail::kConnInfoMagic);
  for (const std::uint8_t byte : gid.bytes) put(byte);
  const auto path_mtu = static_cast<std::uint32_t>(mtu);
  detail::each_field(*this, path_mtu, put);
  return wire;
}

inline std::optional<ConnInfo> ConnInfo::decode(std::span<const std::byte, kWireSize> wire) {
  std::size_t at = 0;
  const auto get = [&](auto& value) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(value); ++i) {
      number = number << 8 | static_cast<std::uint64_t>(wire[at++]);
    }
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
  };
  std::uint64_t magic = 0;
  get(magic);
  if (magic != detail::kConnInfoMagic) return std::nullopt;
  ConnInfo info;
  for (std::uint8_t& byte : info.gid.bytes) get(byte);
  std::uint32_t path_mtu = 0;
  detail::each_field(info, path_mtu, get);
  if (info.qpn > 0xff'ffff || info.psn > 0xff'ffff) return std::nullopt;
  if (path_mtu < IBV_MTU_256 || path_mtu > IBV_MTU_4096) return std::nullopt;
  info.mtu = static_cast<ibv_mtu>(path_mtu);
  return info;
}

}  // namespace rdma
