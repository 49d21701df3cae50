#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"

namespace verbena::packet {

/// Every management datagram has this size (IBA 13.4.2).
inline constexpr std::size_t kMadSize = 256;

/// The queue pair of the general services, and the Q_Key that it is sent to with (IBA 3.9.5.2,
/// 10.2.4).
inline constexpr Qpn kGsiQpn{1};
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;

/// What every management datagram begins with (IBA 13.4.3).
struct MadHeader {
  static constexpr std::size_t kSize = 24;
  static constexpr std::uint8_t kBaseVersion = 1;
  static constexpr std::uint8_t kMethodSend = 0x03;

  std::uint8_t base_version = kBaseVersion;
  std::uint8_t management_class = 0;
  std::uint8_t class_version = 0;
  std::uint8_t method = kMethodSend;
  std::uint16_t status = 0;
  std::uint16_t class_specific = 0;
  std::uint64_t transaction = 0;
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;

  friend constexpr bool operator==(const MadHeader&, const MadHeader&) = default;
};

[[nodiscard]] constexpr std::optional<MadHeader> decode_mad_header(
    std::span<const std::uint8_t> b) {
  if (b.size() < MadHeader::kSize) return std::nullopt;
  return MadHeader{.base_version = b[0],
                   .management_class = b[1],
                   .class_version = b[2],
                   .method = b[3],
                   .status = load_be16(&b[4]),
                   .class_specific = load_be16(&b[6]),
                   .transaction = load_be64(&b[8]),
                   .attribute = load_be16(&b[16]),
                   .modifier = load_be32(&b[20])};
}

/// `b` holds at least MadHeader::kSize bytes.
constexpr void encode_mad_header(const MadHeader& h, std::span<std::uint8_t> b) {
  b[0] = h.base_version;
  b[1] = h.management_class;
  b[2] = h.class_version;
  b[3] = h.method;
  store_be16(&b[4], h.status);
  store_be16(&b[6], h.class_specific);
  store_be64(&b[8], h.transaction);
  store_be16(&b[16], h.attribute);
  store_be16(&b[18], 0);
  store_be32(&b[20], h.modifier);
}

}  // namespace verbena::packet
