#pragma once

#include <algorithm>
#include <cstdint>

#include "base/numbers.h"
#include "base/psn.h"
#include "base/time.h"

namespace verbena::engine {

/// How far UC and UD queue pairs run ahead of a receiver. No packet of theirs is acknowledged, and
/// what overflows the receiver's socket buffer is lost without a word; a wire would have held
/// the sender back. So after some packets goes a mark, which a peer like us answers when it has
/// taken what came before. Peers that don't answer are left alone.
///
///     packets  mark  packets | waits for the answer
///     <- half ->     <- half ->
///
/// Sizes are truesizes, see Window.
class Pace {
 public:
  /// By whom, and the PSN of the packet before it.
  struct Mark {
    Qpn from{};
    Psn number{};
    friend constexpr bool operator==(const Mark&, const Mark&) = default;
  };

  Pace() = default;
  /// Of a receiver that is known to be like us, though it hasn't answered yet.
  explicit constexpr Pace(bool like_us) : like_us_{like_us} {}

  /// May a packet of this truesize leave? Without an unanswered mark, any may.
  [[nodiscard]] constexpr bool fits(std::uint32_t cost) const {
    return !asked() || unmarked_ + cost <= half_;
  }

  /// A packet of this truesize has left. True: now send a mark.
  [[nodiscard]] constexpr bool sent(std::uint32_t cost, Instant now) {
    if (asked() || now >= quiet_until_) unmarked_ += cost;
    return !asked() && unmarked_ >= half_;
  }
  constexpr void mark_sent(const Mark& mark, Instant now) {
    mark_ = mark;
    unmarked_ = 0;
    const bool answers = heard_ || (like_us_ && missed_ == 0);
    gives_up_at_ = now + (answers ? kBusyPeer : kUnknownPeer);
  }

  /// The peer, whose receive buffer is so large, has reached a mark. False: not the one that we
  /// wait for.
  constexpr bool reached(const Mark& mark, std::uint32_t buffer) {
    if (!asked() || mark != mark_) return false;
    half_ = std::clamp(buffer / 4, kLeast, kMost);  // both fill half of it: others want room, too
    gives_up_at_ = kNever;
    heard_ = true;
    missed_ = 0;
    return true;
  }

  /// No answer: the mark was lost, or the peer is gone or not like us.
  constexpr void expire(Instant now) {
    if (now < gives_up_at_) return;
    gives_up_at_ = kNever;
    unmarked_ = 0;
    if (++missed_ < kTries) return;
    quiet_until_ = now + kQuiet;
    heard_ = false;
  }
  /// Who could hear the answer is gone. True: we waited for it.
  constexpr bool forget(Qpn from) {
    if (!asked() || mark_.from != from) return false;
    gives_up_at_ = kNever;
    return true;
  }
  [[nodiscard]] constexpr Instant deadline() const { return gives_up_at_; }

 private:
  static constexpr std::uint32_t kLeast = 212'992 / 4;  // of Linux's default receive buffer
  static constexpr std::uint32_t kMost = 1u << 19;      // together as much as a Window
  static constexpr Duration kUnknownPeer = std::chrono::milliseconds{100};
  static constexpr Duration kBusyPeer = std::chrono::milliseconds{500};
  static constexpr unsigned kTries = 2;
  static constexpr Duration kQuiet = std::chrono::seconds{60};

  [[nodiscard]] constexpr bool asked() const { return gives_up_at_ != kNever; }

  std::uint32_t half_ = kLeast;
  std::uint32_t unmarked_ = 0;  // sent since the last mark
  Mark mark_{};
  Instant gives_up_at_ = kNever;  // kNever: no mark is unanswered
  Instant quiet_until_{};         // no marks before
  bool like_us_ = false;          // if there is anybody
  bool heard_ = false;            // the peer has answered before
  unsigned missed_ = 0;           // marks in a row
};

}  // namespace verbena::engine
