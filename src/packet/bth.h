#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "packet/opcode.h"

namespace verbena::packet {

/// The full-member default partition, the only one that RoCE uses.
inline constexpr std::uint16_t kDefaultPkey = 0xffff;
/// Base transport header (IBA 9.2).
struct Bth {
  static constexpr std::size_t kSize = 12;

  Opcode opcode{};
  bool solicited = false;
  bool migration = true;  // MigReq; 1 = migrated, the normal state
  std::uint8_t pad = 0;   // bytes that round the payload up to 4
  std::uint16_t pkey = kDefaultPkey;
  bool fecn = false;
  bool becn = false;
  Qpn destination;
  bool ack_request = false;
  Psn psn;

  friend constexpr bool operator==(const Bth&, const Bth&) = default;
};

/// The queue pair that a frame of at least Bth::kSize bytes is for. The wire asks once per frame
/// and hands the answer on (Datagram::destination_qpn).
[[nodiscard]] constexpr Qpn destination_qpn_of(std::span<const std::uint8_t> frame) {
  constexpr std::size_t kOffset = 5;
  return Qpn{load_be24(&frame[kOffset])};
}

/// nullopt: short buffer or a transport version other than 0; the caller drops and counts.
/// `destination`: what destination_qpn_of() said of it.
[[nodiscard]] constexpr std::optional<Bth> decode_bth(std::span<const std::uint8_t> b,
                                                      Qpn destination) {
  if (b.size() < Bth::kSize || (b[1] & 0x0f) != 0) return std::nullopt;
  return Bth{.opcode = static_cast<Opcode>(b[0]),
             .solicited = (b[1] & 0x80) != 0,
             .migration = (b[1] & 0x40) != 0,
             .pad = static_cast<std::uint8_t>((b[1] >> 4) & 3),
             .pkey = load_be16(&b[2]),
             .fecn = (b[4] & 0x80) != 0,
             .becn = (b[4] & 0x40) != 0,
             .destination = destination,
             .ack_request = (b[8] & 0x80) != 0,
             .psn = Psn{load_be24(&b[9])}};
}

[[nodiscard]] constexpr std::optional<Bth> decode_bth(std::span<const std::uint8_t> b) {
  if (b.size() < Bth::kSize) return std::nullopt;
  return decode_bth(b, destination_qpn_of(b));
}

/// `b` holds at least Bth::kSize bytes.
constexpr void encode_bth(const Bth& h, std::span<std::uint8_t> b) {
  b[0] = static_cast<std::uint8_t>(h.opcode);
  b[1] = static_cast<std::uint8_t>((h.solicited ? 0x80 : 0) | (h.migration ? 0x40 : 0) |
                                   ((h.pad & 3) << 4));
  store_be16(&b[2], h.pkey);
  b[4] = static_cast<std::uint8_t>((h.fecn ? 0x80 : 0) | (h.becn ? 0x40 : 0));
  store_be24(&b[5], h.destination.value());
  b[8] = h.ack_request ? 0x80 : 0;
  store_be24(&b[9], h.psn.value());
}

}  // namespace verbena::packet
