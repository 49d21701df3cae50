#pragma once

// A whole RoCEv2 packet between the UDP header and the ICRC: bytes to value and back.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "packet/aeth.h"
#include "packet/atomic_ack_eth.h"
#include "packet/atomic_eth.h"
#include "packet/bth.h"
#include "packet/deth.h"
#include "packet/feth.h"
#include "packet/ieth.h"
#include "packet/immediate.h"
#include "packet/opcode.h"
#include "packet/reth.h"
#include "packet/xrceth.h"

namespace verbena::packet {

inline constexpr std::size_t kIcrcSize = 4;
/// BTH and the longest run of extension headers of any opcode that we know: an XRC atomic's.
inline constexpr std::size_t kMaxHeaderSize = Bth::kSize + Xrceth::kSize + AtomicEth::kSize;

/// Headers that the opcode doesn't carry keep their defaults.
struct Packet {
  Bth bth;
  Xrceth xrceth;
  Deth deth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  Immediate immediate{};
  Ieth ieth;
  std::span<const std::uint8_t> payload;  // without the pad

  // Neither "= default" nor constexpr: the compiler would fill the whole packet with zeros
  // ("rep stos") before it sets the defaults, a third of parse()'s time.
  Packet() {}  // NOLINT(modernize-use-equals-default)

  [[nodiscard]] const OpcodeInfo& info() const { return info_of(bth.opcode); }
};

/// Why received bytes are not a packet. Each is a counter.
enum class Malformed : std::uint8_t { too_short, bad_version, unknown_opcode, bad_pad };

/// `bytes` is the UDP payload, ICRC included (it is not checked here). Total: any input
/// gives a value or a reason.
[[nodiscard]] std::variant<Packet, Malformed> parse(std::span<const std::uint8_t> bytes);
/// The same, where the destination is known already: what destination_qpn_of() said.
[[nodiscard]] std::variant<Packet, Malformed> parse(std::span<const std::uint8_t> bytes,
                                                    Qpn destination);
/// The same for bytes that another process may change meanwhile: each byte of the headers is read
/// once, and the payload is not read.
[[nodiscard]] std::variant<Packet, Malformed> parse_changeable(std::span<const std::uint8_t> bytes,
                                                               Qpn destination);

/// Bytes of the headers that `op` carries: BTH and extensions.
[[nodiscard]] constexpr std::size_t header_size(Opcode op) {
  return Bth::kSize + info_of(op).extension_size();
}
// Not std::ranges::max(): GCC 13.3 crashes on it here.
static_assert(std::ranges::max_element(detail::kOpcodeTable, {}, &OpcodeInfo::extension_bytes)
                      ->extension_size() +
                  Bth::kSize ==
              kMaxHeaderSize);

/// Bytes that round a payload up to a multiple of 4.
[[nodiscard]] constexpr std::uint8_t pad_of(std::size_t payload) {
  return static_cast<std::uint8_t>((0 - payload) & 3);
}

/// Bytes of the UDP payload without the ICRC.
[[nodiscard]] constexpr std::size_t frame_size(Opcode op, std::size_t payload) {
  return header_size(op) + payload + pad_of(payload);
}

/// Writes the headers that the opcode carries; `out` holds header_size(opcode) bytes.
/// The payload is the caller's to place behind them: it is not read from `p`.
void encode_headers(const Packet& p, std::span<std::uint8_t> out);

/// The whole frame, payload and pad included, ICRC left out; `out` holds header_size(opcode)
/// + payload + bth.pad bytes, which is frame_size() when the pad is pad_of(payload). Returns
/// that size.
std::size_t encode(const Packet& p, std::span<std::uint8_t> out);

}  // namespace verbena::packet
