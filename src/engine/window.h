#pragma once

#include <algorithm>
#include <cstdint>

namespace verbena::engine {

/// How many packets may be unacknowledged. What overflows is the receiver's socket buffer, and
/// the kernel charges it by the packet's memory, not its bytes; so the window counts packets
/// and its cap follows from that charge.
class Window {
 public:
  /// What the kernel charges a receive buffer for a packet with this much payload: measured
  /// 832 for 64 B and 8,500 for 4 KiB.
  [[nodiscard]] static constexpr std::uint32_t truesize(std::uint32_t payload) {
    return 832 + 2 * payload;
  }

  constexpr Window() : Window{1024} {}
  constexpr explicit Window(std::uint32_t mtu)
      : cap_{std::clamp(kMaxTruesize / truesize(mtu), kInitial, kMaxPackets)} {}

  [[nodiscard]] constexpr std::uint32_t packets() const { return packets_; }

  /// Doubles each round trip up to the threshold, then grows by one.
  constexpr void acknowledged(std::uint32_t n) {
    if (packets_ < threshold_) {
      packets_ = std::min(packets_ + n, cap_);
      return;
    }
    credit_ += n;
    if (credit_ >= packets_) {
      credit_ -= packets_;
      packets_ = std::min(packets_ + 1, cap_);
    }
  }

  /// A packet was lost, the rest of the window still flows.
  constexpr void lost() {
    threshold_ = std::max(packets_ / 2, kMin);
    packets_ = threshold_;
    credit_ = 0;
  }

  /// Nothing came back: begin again with a single packet.
  constexpr void collapse() {
    lost();
    packets_ = 1;
  }

 private:
  static constexpr std::uint32_t kInitial = 16;
  static constexpr std::uint32_t kMin = 2;
  static constexpr std::uint32_t kMaxPackets = 512;
  static constexpr std::uint32_t kMaxTruesize = 1u << 20;

  std::uint32_t cap_;
  std::uint32_t packets_ = kInitial;
  std::uint32_t threshold_ = kMaxPackets;
  std::uint32_t credit_ = 0;
};

}  // namespace verbena::engine
