#pragma once

#include <compare>
#include <cstdint>

#include "base/numbers.h"

namespace verbena::packet {

/// Communication id: names one end of a connection, or of a service id resolution, in the
/// messages of the connection manager (IBA 12.6). The upper bits of ours name the slot, and so
/// the process, that owns it, as those of a Qpn do; a peer's may be any number.
class CommId {
 public:
  static constexpr unsigned kIndexBits = 22;
  static constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
  static constexpr std::uint32_t kSlots = 1u << (32 - kIndexBits);
  static_assert(kSlots == Qpn::kSlots);

  constexpr CommId() = default;
  constexpr explicit CommId(std::uint32_t v) : v_{v} {}
  [[nodiscard]] static constexpr CommId of_slot(std::uint32_t slot, std::uint32_t index) {
    return CommId{(slot << kIndexBits) | (index & kIndexMask)};
  }

  [[nodiscard]] constexpr std::uint32_t value() const { return v_; }
  [[nodiscard]] constexpr std::uint32_t slot() const { return v_ >> kIndexBits; }
  /// 0 stands in a message for an end that is not known yet.
  [[nodiscard]] constexpr bool known() const { return v_ != 0; }
  friend constexpr auto operator<=>(CommId, CommId) = default;

 private:
  std::uint32_t v_ = 0;
};

}  // namespace verbena::packet
