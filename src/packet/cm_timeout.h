#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>

#include "base/time.h"

namespace verbena::packet {

/// A time as the management classes write it: 5 bits v that stand for 4.096 us * 2^v.
class CmTimeout {
 public:
  constexpr CmTimeout() = default;
  constexpr explicit CmTimeout(unsigned v) : v_{static_cast<std::uint8_t>(v & 0x1f)} {}

  [[nodiscard]] constexpr std::uint8_t value() const { return v_; }
  [[nodiscard]] constexpr Duration duration() const { return Duration{std::int64_t{4096} << v_}; }
  friend constexpr auto operator<=>(CmTimeout, CmTimeout) = default;

 private:
  std::uint8_t v_ = 0;
};

/// One after the other. The shorter counts, as a whole step, only when it is within a step of the
/// longer: so the kernel reckons, and both ends of a connection should agree.
[[nodiscard]] constexpr CmTimeout sum(CmTimeout a, CmTimeout b) {
  const unsigned longer = std::max(a.value(), b.value());
  const unsigned shorter = std::min(a.value(), b.value());
  return CmTimeout{std::min(31u, longer + (shorter + 1 >= longer ? 1 : 0))};
}

static_assert(CmTimeout{0}.duration() == std::chrono::nanoseconds{4096});
static_assert(sum(CmTimeout{19}, CmTimeout{15}) == CmTimeout{19});
static_assert(sum(CmTimeout{16}, CmTimeout{15}) == CmTimeout{17});

}  // namespace verbena::packet
