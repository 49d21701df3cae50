#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/psn.h"

namespace verbena::engine {

/// How much may be unacknowledged. What overflows is the receiver's socket buffer, and the kernel
/// charges it by the memory that a packet takes, not by its bytes. So the window counts that:
/// many small packets or few large ones.
///
///   slow start: twice as much each round trip   --- threshold --->   half a packet each round trip
///       ^                                                                |
///       +--- timeout: one packet --- loss, congestion: half, once each round trip
class Window {
 public:
  /// What a packet with this much payload costs the receive buffer: 832 up to about 150 B, so
  /// that the default buffer of 212,992 holds 256 of 64 B; 8,448 for 4 KiB, of which it holds 25.
  [[nodiscard]] static constexpr std::uint32_t truesize(std::uint32_t payload) {
    // Headers from Ethernet to ICRC, and the kernel's skb_shared_info behind the data.
    const std::uint32_t data = payload + 432;
    return 256 + (data <= 576 ? 576 : std::bit_ceil(data));
  }

  constexpr Window() : Window{1024} {}
  constexpr explicit Window(std::uint32_t mtu) : packet_{truesize(mtu)} {}
  /// Towards a peer that nothing overflows: who is too fast is held back on the way.
  [[nodiscard]] static constexpr Window lossless() {
    Window w;
    w.packet_ = w.limit_ = w.threshold_ = kLossless;
    return w;
  }

  [[nodiscard]] constexpr std::uint32_t limit() const { return limit_; }
  [[nodiscard]] constexpr std::uint32_t in_flight() const { return in_flight_; }

  /// May a packet of this truesize leave? With nothing in flight, any may.
  [[nodiscard]] constexpr bool fits(std::uint32_t cost) const {
    return in_flight_ + cost <= limit_ || in_flight_ == 0;
  }
  /// After a packet of this truesize, no other like it may.
  [[nodiscard]] constexpr bool closes_after(std::uint32_t cost) const {
    return in_flight_ + 2 * cost > limit_;
  }
  /// Packets of this truesize that may leave now.
  [[nodiscard]] constexpr std::uint32_t room(std::uint32_t cost) const {
    const std::uint32_t left = limit_ > in_flight_ ? limit_ - in_flight_ : 0;
    return std::max(left / cost, in_flight_ == 0 ? 1u : 0u);
  }

  /// Packets of this truesize each have left.
  constexpr void sent(std::uint32_t packets, std::uint32_t cost) {
    in_flight_ += packets * cost;
    step_ = cost / 2;
    tried_ = std::max(tried_, in_flight_);
  }

  /// Everything before `unacked` is answered, `cost` of it since the last time.
  constexpr void acknowledged(std::uint32_t cost, Psn unacked) {
    in_flight_ -= std::min(cost, in_flight_);
    if (distance(unacked, recovery_) >= 0) recovering_ = false;
    if (limit_ / 2 > tried_) return;  // a program that sends little learns nothing
    if (limit_ < threshold_) {
      limit_ = std::min(limit_ + cost, threshold_);
    } else {
      credit_ += cost;
      if (credit_ < limit_) return;
      credit_ -= limit_;
      limit_ = std::max(limit_, std::min(limit_ + step_, kMax));
    }
  }

  /// The network is congested. All that left before `end` tells of the same congestion: one
  /// halving for it.
  constexpr void halve(Psn end) {
    if (recovering_) return;
    recovering_ = true;
    recovery_ = end;
    threshold_ = std::max(limit_ / 2, packet_);
    limit_ = threshold_;
    credit_ = 0;
    tried_ = 0;
  }

  /// A packet was lost, and what follows it will be sent again, while its first copies still fill
  /// the buffer: half the window, but begun with a quarter.
  constexpr void lost(Psn end) {
    if (recovering_) return;
    halve(end);
    limit_ = std::max(threshold_ / 2, packet_);
  }

  /// Nothing came back: begin again with a single packet.
  constexpr void collapse(Psn end) {
    halve(end);
    recovery_ = end;
    limit_ = packet_;
  }

  struct Size {
    std::uint32_t limit = 0;
    std::uint32_t threshold = 0;
  };
  [[nodiscard]] constexpr Size size() const { return {limit_, threshold_}; }
  /// The answer was late, not lost: as if nothing had reduced the window since it was of this size.
  constexpr void restore(Size before) {
    limit_ = std::max(limit_, before.limit);
    threshold_ = std::max(threshold_, before.threshold);
    recovering_ = false;
  }

  /// Everything unacknowledged will be sent again.
  constexpr void went_back() { in_flight_ = 0; }

 private:
  static constexpr std::uint32_t kInitial = 16'896;  // two packets of 4 KiB, twenty of 64 B
  static constexpr std::uint32_t kMax = 1u << 20;
  static constexpr std::uint32_t kLossless = 8u << 20;

  // All in truesize.
  std::uint32_t packet_;  // a full one
  std::uint32_t limit_ = kInitial;
  std::uint32_t threshold_ = kMax;  // slow start ends here
  std::uint32_t step_ = 0;          // half a packet of the size that is being sent
  std::uint32_t credit_ = 0;        // acknowledged since the last step
  std::uint32_t in_flight_ = 0;
  std::uint32_t tried_ = 0;  // the most that was in flight since the last loss
  bool recovering_ = false;  // until `recovery_` is acknowledged, a loss tells nothing new
  Psn recovery_{};
};

}  // namespace verbena::engine
