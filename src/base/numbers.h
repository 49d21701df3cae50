#pragma once

#include <cstdint>

namespace verbena {

/// Queue pair number, 24 bits. The upper bits name the slot, and so the process, that owns it.
class Qpn {
 public:
  static constexpr std::uint32_t kMask = 0xff'ffffu;
  static constexpr unsigned kIndexBits = 14;  // queue pairs of one slot
  static constexpr std::uint32_t kSlots = 1u << (24 - kIndexBits);

  constexpr Qpn() = default;
  constexpr explicit Qpn(std::uint32_t v) : v_{v & kMask} {}

  [[nodiscard]] constexpr std::uint32_t value() const { return v_; }
  [[nodiscard]] constexpr std::uint32_t slot() const { return v_ >> kIndexBits; }
  friend constexpr bool operator==(Qpn, Qpn) = default;

 private:
  std::uint32_t v_ = 0;
};

/// Names a registration. Our lkey and rkey of a region are the same number.
class Key {
 public:
  constexpr Key() = default;
  constexpr explicit Key(std::uint32_t v) : v_{v} {}

  [[nodiscard]] constexpr std::uint32_t value() const { return v_; }
  friend constexpr bool operator==(Key, Key) = default;

 private:
  std::uint32_t v_ = 0;
};

}  // namespace verbena
