// Fuzz target: parse() takes any bytes; what it accepts, encode() gives back.
//
// Run: cmake --preset fuzz && cmake --build --preset fuzz --target parse_fuzz
//      build/fuzz/fuzz/parse_fuzz -max_total_time=60 build/fuzz/fuzz/parse_seeds

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "packet/packet.h"
#include "packet/print.h"
#include "tests/fuzz/target.h"

using namespace verbena::packet;

namespace {

/// What a receiver ignores and a sender leaves zero: the reserved bits of the headers, the pad.
std::vector<std::uint8_t> canonical(std::span<const std::uint8_t> frame, const Packet& p) {
  std::vector<std::uint8_t> b{frame.begin(), frame.end()};
  b[4] &= 0xc0;
  b[8] &= 0x80;
  const OpcodeInfo& info = p.info();
  std::uint8_t* const extensions = b.data() + Bth::kSize;
  if (info.xrceth) extensions[0] = 0;
  if (info.deth) extensions[4] = 0;
  if (info.feth) {
    std::uint8_t* const feth = extensions + (info.xrceth ? Xrceth::kSize : 0);
    std::fill_n(feth, 3, std::uint8_t{0});
    feth[3] &= 0x33;
  }
  if (info.reserved) std::fill_n(extensions, Extensions::kReservedSize, std::uint8_t{0});
  std::fill_n(b.rbegin(), p.bth.pad, std::uint8_t{0});
  return b;
}

}  // namespace

std::vector<verbena::fuzz::Bytes> verbena::fuzz::seeds_of(
    const std::vector<Recording>& recordings) {
  std::vector<Bytes> out;
  for (const Recording& r : recordings) {
    for (const test::Captured& c : r) out.push_back(c.payload);
  }
  return out;
}

bool verbena::fuzz::change(Bytes&, std::mt19937_64&) { return false; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes{data, size};
  const auto parsed = parse(bytes);
  const auto* p = std::get_if<Packet>(&parsed);
  if (p == nullptr) return 0;

  const auto frame = bytes.first(size - kIcrcSize);
  std::vector<std::uint8_t> encoded(frame.size());
  if (encode(*p, encoded) != frame.size()) std::abort();
  if (encoded != canonical(frame, *p)) std::abort();
  if (text(*p).find('\n') != std::string::npos) std::abort();
  return 0;
}
