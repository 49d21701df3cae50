#include "packet/receive_hash.h"

#include <algorithm>

#include "base/bytes.h"

namespace verbena::packet {

std::uint32_t toeplitz(std::span<const std::uint8_t> key, std::span<const std::uint8_t> input) {
  std::uint32_t hash = 0;
  std::uint32_t window = load_be32(key.data());
  for (std::size_t i = 0; i < input.size(); ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      if ((input[i] << bit & 0x80) != 0) hash ^= window;
      const std::uint8_t next = i + 4 < key.size() ? key[i + 4] : std::uint8_t{0};
      window = window << 1 | (next >> (7 - bit) & 1u);
    }
  }
  return hash;
}

namespace {

/// Where a field lies.
struct Place {
  std::uint32_t field;
  FrameLayer layer;
  std::size_t offset;
  std::size_t size;
};

using Field = ReceiveHash::Field;

constexpr std::array kPlaces{
    Place{Field::kSourceIpv4, FrameLayer::ipv4, 12, 4},
    Place{Field::kDestinationIpv4, FrameLayer::ipv4, 16, 4},
    Place{Field::kSourceIpv6, FrameLayer::ipv6, 8, 16},
    Place{Field::kDestinationIpv6, FrameLayer::ipv6, 24, 16},
    Place{Field::kSourceTcp, FrameLayer::tcp, 0, 2},
    Place{Field::kDestinationTcp, FrameLayer::tcp, 2, 2},
    Place{Field::kSourceUdp, FrameLayer::udp, 0, 2},
    Place{Field::kDestinationUdp, FrameLayer::udp, 2, 2},
};

}  // namespace

std::uint32_t ReceiveHash::of(const FrameHeaders& headers) const {
  std::array<std::uint8_t, 36> input;  // two addresses of IPv6 and two ports
  std::size_t length = 0;
  for (const Place& p : kPlaces) {
    const auto header = headers.find(p.layer);
    if ((fields_ & p.field) == 0 || header.empty()) continue;
    const auto bytes = header.subspan(p.offset, p.size);
    std::copy(bytes.begin(), bytes.end(), input.begin() + static_cast<std::ptrdiff_t>(length));
    length += p.size;
  }
  return toeplitz(key_, std::span{input}.first(length));
}

}  // namespace verbena::packet
