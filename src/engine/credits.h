#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "packet/aeth.h"

namespace verbena::engine {

/// End-to-end flow control, requester side (IBA 9.7.7.2): how many of the messages that take a
/// receive the peer has room for. The specification counts all messages (SSN, MSN) and lifts the
/// limit for those that take none; to count only those that do is the same, and asking for a READ
/// in pieces doesn't disturb it.
class Credits {
 public:
  /// IBA table 46: what the five bits of an ACK stand for. 31: the peer doesn't report credits.
  [[nodiscard]] static constexpr std::uint32_t count_of(std::uint8_t code) {
    constexpr std::array<std::uint16_t, 31> kCounts{
        0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
        48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
        2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
    return kCounts[std::min<std::size_t>(code, kCounts.size() - 1)];
  }

  /// A message that took a receive is complete: the `number`th of its kind, from 0.
  constexpr void completed(std::uint64_t number) { done_ = number + 1; }

  /// The peer acknowledges what is complete, and has so many receives more. Acknowledgements may
  /// overtake each other, so the limit never falls.
  constexpr void granted(packet::Syndrome ack) {
    if (ack.credits() == packet::Syndrome::kNoCredits) {
      limit_.reset();
    } else {
      limit_ = std::max(limit_.value_or(0), done_ + count_of(ack.credits()));
    }
  }

  /// There is a receive for the message, as far as we know.
  [[nodiscard]] constexpr bool covers(std::uint64_t number) const {
    return !limit_ || number < *limit_;
  }
  /// The first message beyond the limit: one packet of it may go and ask (the limited WQE). A NAK
  /// completes what is before it and grants nothing, so the limit may lie behind what is complete.
  [[nodiscard]] constexpr bool may_probe(std::uint64_t number) const {
    return limit_ && number == std::max(*limit_, done_);
  }

 private:
  std::uint64_t done_ = 0;
  std::optional<std::uint64_t> limit_;  // none: the peer reports no credits
};

}  // namespace verbena::engine
