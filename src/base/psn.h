#pragma once

#include <cstdint>

namespace verbena {

/// 24-bit packet sequence number. Order wraps, so there is no operator<: use distance().
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xff'ffffu;

  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t v) : v_{v & kMask} {}

  [[nodiscard]] constexpr std::uint32_t value() const { return v_; }
  [[nodiscard]] constexpr Psn next() const { return Psn{v_ + 1}; }
  [[nodiscard]] constexpr Psn previous() const { return Psn{v_ - 1}; }

  friend constexpr Psn operator+(Psn a, std::uint32_t n) { return Psn{a.v_ + n}; }
  friend constexpr bool operator==(Psn, Psn) = default;

  /// How far `a` is ahead of `b`; negative when `a` is older.
  friend constexpr std::int32_t distance(Psn a, Psn b) {
    return static_cast<std::int32_t>((a.v_ - b.v_) << 8) >> 8;
  }

 private:
  std::uint32_t v_ = 0;
};

static_assert(distance(Psn{0}, Psn{0xff'ffff}) == 1);
static_assert(distance(Psn{0xff'ffff}, Psn{0}) == -1);

}  // namespace verbena
