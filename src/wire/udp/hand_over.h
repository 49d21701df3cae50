#pragma once

// Frames that reached the wrong process of this host, as they travel to the right one: what was
// known of their headers, then the frames. Both ends are on one machine: host byte order.

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "base/ip_address.h"
#include "wire/train.h"

namespace verbena::wire {

struct HandOverHeader {
  IpAddress::Bytes source{};
  IpAddress::Bytes destination{};
  std::uint32_t segment = 0;  // bytes of each frame
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;

  [[nodiscard]] static HandOverHeader of(const Train& t) {
    return {.source = t.whole.source.bytes(),
            .destination = t.whole.destination.bytes(),
            .segment = static_cast<std::uint32_t>(t.segment),
            .source_port = t.whole.source_port,
            .traffic_class = t.whole.traffic_class,
            .hop_limit = t.whole.hop_limit};
  }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(this), sizeof *this};
  }
};
static_assert(std::is_trivially_copyable_v<HandOverHeader>);
static_assert(sizeof(HandOverHeader) == 40);

/// nullopt: shorter than a header.
[[nodiscard]] inline std::optional<Train> handed_over_train(std::span<const std::uint8_t> message) {
  HandOverHeader header;
  if (message.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, message.data(), sizeof header);
  const auto frames = message.subspan(sizeof header);
  return Train{.whole = {.source = IpAddress{header.source},
                         .destination = IpAddress{header.destination},
                         .source_port = header.source_port,
                         .traffic_class = header.traffic_class,
                         .hop_limit = header.hop_limit,
                         .bytes = frames},
               .segment = header.segment == 0 ? frames.size() : header.segment};
}

}  // namespace verbena::wire
