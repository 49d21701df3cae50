#include "packet/packet.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace verbena::packet {
namespace {

using Bytes = std::span<const std::uint8_t>;

/// The headers at the start of `b`, which holds them all.
void take_extensions(Packet& p, const OpcodeInfo& info, Bytes b) {
  const auto take = [&b](auto& header, auto decode, std::size_t size) {
    header = *decode(b);
    b = b.subspan(size);
  };
  if (info.xrceth) take(p.xrceth, decode_xrceth, Xrceth::kSize);
  if (info.deth) take(p.deth, decode_deth, Deth::kSize);
  if (info.feth) take(p.feth, decode_feth, Feth::kSize);
  if (info.reth) take(p.reth, decode_reth, Reth::kSize);
  if (info.atomic_eth) take(p.atomic_eth, decode_atomic_eth, AtomicEth::kSize);
  if (info.aeth) take(p.aeth, decode_aeth, Aeth::kSize);
  if (info.atomic_ack_eth) take(p.atomic_ack_eth, decode_atomic_ack_eth, AtomicAckEth::kSize);
  if (info.immediate) take(p.immediate, decode_immediate, kImmediateSize);
  if (info.ieth) take(p.ieth, decode_ieth, Ieth::kSize);
}

void put_extensions(const Packet& p, const OpcodeInfo& info, std::span<std::uint8_t> out) {
  const auto put = [&out](const auto& header, auto encode_header, std::size_t size) {
    encode_header(header, out);
    out = out.subspan(size);
  };
  if (info.xrceth) put(p.xrceth, encode_xrceth, Xrceth::kSize);
  if (info.deth) put(p.deth, encode_deth, Deth::kSize);
  if (info.feth) put(p.feth, encode_feth, Feth::kSize);
  if (info.reth) put(p.reth, encode_reth, Reth::kSize);
  if (info.atomic_eth) put(p.atomic_eth, encode_atomic_eth, AtomicEth::kSize);
  if (info.aeth) put(p.aeth, encode_aeth, Aeth::kSize);
  if (info.atomic_ack_eth) put(p.atomic_ack_eth, encode_atomic_ack_eth, AtomicAckEth::kSize);
  if (info.immediate) put(p.immediate, encode_immediate, kImmediateSize);
  if (info.ieth) put(p.ieth, encode_ieth, Ieth::kSize);
  if (info.reserved) std::fill_n(out.begin(), Extensions::kReservedSize, std::uint8_t{0});
}

/// So many bytes stand between the BTH and the ICRC.
std::optional<Malformed> check_body(const Bth& bth, const OpcodeInfo& info, std::size_t body) {
  if (!info.known()) return Malformed::unknown_opcode;
  if (body < info.extension_size()) return Malformed::too_short;
  // C9-12 ff.: with its pad, a payload is a whole number of words.
  const std::size_t padded = body - info.extension_size();
  if (padded < bth.pad || padded % 4 != 0) return Malformed::bad_pad;
  return std::nullopt;
}

/// The bytes are as they must be. A function of its own, so that the packet is built where the
/// caller wants it.
std::variant<Packet, Malformed> packet_of(const Bth& bth, const OpcodeInfo& info, Bytes head,
                                          Bytes bytes) {
  std::variant<Packet, Malformed> result{std::in_place_type<Packet>};
  Packet& p = *std::get_if<Packet>(&result);
  p.bth = bth;
  take_extensions(p, info, head.subspan(Bth::kSize));
  const Bytes padded =
      bytes.first(bytes.size() - kIcrcSize).subspan(Bth::kSize + info.extension_size());
  p.payload = padded.first(padded.size() - p.bth.pad);
  return result;
}

/// `head`: the first bytes, all headers among them.
std::variant<Packet, Malformed> parse(Bytes head, Bytes bytes, Qpn destination) {
  const auto bth = decode_bth(head, destination);
  if (!bth) return Malformed::bad_version;
  const OpcodeInfo& info = info_of(bth->opcode);
  if (const auto reason = check_body(*bth, info, bytes.size() - kIcrcSize - Bth::kSize)) {
    return *reason;
  }
  return packet_of(*bth, info, head, bytes);
}

}  // namespace

std::variant<Packet, Malformed> parse(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < Bth::kSize + kIcrcSize) return Malformed::too_short;
  return parse(bytes, destination_qpn_of(bytes));
}

std::variant<Packet, Malformed> parse(std::span<const std::uint8_t> bytes, Qpn destination) {
  if (bytes.size() < Bth::kSize + kIcrcSize) return Malformed::too_short;
  return parse(bytes, bytes, destination);
}

std::variant<Packet, Malformed> parse_changeable(std::span<const std::uint8_t> bytes,
                                                 Qpn destination) {
  if (bytes.size() < Bth::kSize + kIcrcSize) return Malformed::too_short;
  std::array<std::uint8_t, kMaxHeaderSize> head;
  const std::size_t size = std::min(head.size(), bytes.size());
  // The compiler must not go back to the original.
  const volatile std::uint8_t* const from = bytes.data();
  for (std::size_t i = 0; i < size; ++i) head[i] = from[i];
  return parse(std::span{head}.first(size), bytes, destination);
}

void encode_headers(const Packet& p, std::span<std::uint8_t> out) {
  encode_bth(p.bth, out);
  put_extensions(p, p.info(), out.subspan(Bth::kSize));
}

std::size_t encode(const Packet& p, std::span<std::uint8_t> out) {
  const std::size_t headers = header_size(p.bth.opcode);
  encode_headers(p, out);
  const auto end = std::copy(p.payload.begin(), p.payload.end(), out.subspan(headers).begin());
  std::fill_n(end, p.bth.pad, std::uint8_t{0});
  return headers + p.payload.size() + p.bth.pad;
}

}  // namespace verbena::packet
