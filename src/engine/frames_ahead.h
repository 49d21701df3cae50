#pragma once

#include <cstdint>
#include <span>

#include "engine/copies.h"
#include "packet/frame.h"

namespace verbena::engine {

/// The frames of a message's packets that are alike, reserved and filled many at a time: one call
/// copies what would have taken one for each (docs/decisions/011-copies-in-batches.md). A frame
/// that is not used is forgotten with the next one that is reserved.
class FramesAhead {
 public:
  static constexpr std::uint32_t kTurn = 64;

  /// How many at once from this memory, with `budget` packets left in this turn. Where many belong
  /// together, because a call takes as long as the copies of a turn, they may be more.
  [[nodiscard]] static std::uint32_t most(const Segment& from, unsigned budget) {
    const std::uint32_t worth = from.backing->frames_at_once();
    return worth > kTurn ? worth : std::min(worth, budget);
  }

  /// The next frame with its payload, or nothing: reserve and fill it alone.
  [[nodiscard]] std::span<std::uint8_t> take() {
    return next_ < rooms_.count ? rooms_[next_++] : std::span<std::uint8_t>{};
  }
  [[nodiscard]] bool empty() const { return next_ == rooms_.count; }
  void forget() { next_ = rooms_.count = 0; }

  /// `count` packets with `payload` bytes each behind `headers`, from `from` on. It may become
  /// fewer, or none if the memory is gone: who fills one alone finds out.
  void fill(packet::FrameSink& sink, const packet::Flow& flow, Qpn to, std::size_t headers,
            std::uint32_t payload, const Segment& from, std::uint32_t count) {
    forget();
    rooms_ = sink.reserve_many(flow, to, headers + payload, count);
    if (rooms_.count == 0) return;
    const memory::FrameParts parts{rooms_[0].subspan(headers, payload), rooms_.stride,
                                   rooms_.count};
    if (!Copies::gather_parts(from, parts)) rooms_.count = 0;
  }

 private:
  packet::FrameRooms rooms_{};
  std::size_t next_ = 0;
};

}  // namespace verbena::engine
