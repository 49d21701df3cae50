#include "packet/packet.h"

#include <algorithm>

namespace verbena::packet {

std::variant<Packet, Malformed> parse(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < Bth::kSize + kIcrcSize) return Malformed::too_short;
  const auto bth = decode_bth(bytes);
  if (!bth) return Malformed::bad_version;
  const OpcodeInfo& info = info_of(bth->opcode);
  if (!info.known()) return Malformed::unknown_opcode;

  auto rest = bytes.first(bytes.size() - kIcrcSize).subspan(Bth::kSize);
  if (rest.size() < info.extension_size()) return Malformed::too_short;

  Packet p{.bth = *bth, .reth = {}, .aeth = {}, .immediate = {}, .ieth = {}, .payload = {}};
  if (info.reth) {
    p.reth = *decode_reth(rest);
    rest = rest.subspan(Reth::kSize);
  }
  if (info.aeth) {
    p.aeth = *decode_aeth(rest);
    rest = rest.subspan(Aeth::kSize);
  }
  if (info.immediate) {
    std::copy_n(rest.begin(), p.immediate.size(), p.immediate.begin());
    rest = rest.subspan(p.immediate.size());
  }
  if (info.ieth) {
    p.ieth = *decode_ieth(rest);
    rest = rest.subspan(Ieth::kSize);
  }
  if (bth->pad > rest.size()) return Malformed::bad_pad;
  p.payload = rest.first(rest.size() - bth->pad);
  return p;
}

void encode_headers(const Packet& p, std::span<std::uint8_t> out) {
  const OpcodeInfo& info = p.info();
  encode_bth(p.bth, out);
  out = out.subspan(Bth::kSize);
  if (info.reth) {
    encode_reth(p.reth, out);
    out = out.subspan(Reth::kSize);
  }
  if (info.aeth) {
    encode_aeth(p.aeth, out);
    out = out.subspan(Aeth::kSize);
  }
  if (info.immediate) {
    std::copy(p.immediate.begin(), p.immediate.end(), out.begin());
    out = out.subspan(p.immediate.size());
  }
  if (info.ieth) encode_ieth(p.ieth, out);
}

std::size_t encode(const Packet& p, std::span<std::uint8_t> out) {
  const std::size_t headers = header_size(p.bth.opcode);
  encode_headers(p, out);
  const auto end = std::copy(p.payload.begin(), p.payload.end(), out.subspan(headers).begin());
  std::fill_n(end, p.bth.pad, std::uint8_t{0});
  return headers + p.payload.size() + p.bth.pad;
}

}  // namespace verbena::packet
