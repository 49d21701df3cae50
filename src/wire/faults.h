#pragma once

// The network between us and our peers, as a FaultSpec describes it. Frames that leave go through
//
//   admit ─► drop ─► corrupt ─► duplicate ─► reorder ─► rate ─► delay ─► due
//
// No clock and no socket: time is an argument. The same seed and the same frames at the same
// times have the same fate.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "base/numbers.h"
#include "base/time.h"
#include "packet/frame.h"
#include "settings/fault_spec.h"
#include "wire/observer.h"

namespace verbena::wire {

struct FaultCounters {
  std::uint64_t dropped = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;  // held back, so that others may overtake
  std::uint64_t corrupted = 0;

  FaultCounters& operator+=(const FaultCounters& other) {
    dropped += other.dropped;
    duplicated += other.duplicated;
    reordered += other.reordered;
    corrupted += other.corrupted;
    return *this;
  }
};

class Faults {
 public:
  /// A frame that is held back lets this many of its flow pass, at most …
  static constexpr unsigned kMaxOvertakers = 3;
  /// … and goes on after this time whether or not they came.
  static constexpr Duration kMaxHold = std::chrono::milliseconds{1};
  /// What a slow line lets wait for it.
  static constexpr Duration kMaxBacklog = std::chrono::milliseconds{2};
  static constexpr std::size_t kMaxBytes = 64u << 20;

  struct Frame {
    packet::Flow flow;
    Qpn to;
    std::vector<std::uint8_t> bytes;  // BTH … ICRC
  };

  explicit Faults(const settings::FaultSpec& spec)
      : spec_{spec}, fates_{spec.seed}, details_{~spec.seed} {}

  /// nullptr: nobody. It outlives this.
  void observe(Observer* observer) { observer_ = observer; }

  void admit(Frame frame, Instant now);

  /// The frame that is to leave now; nullptr: none. Valid until pop().
  [[nodiscard]] const Frame* due(Instant now);
  void pop();

  /// When due() will have one, if nothing is admitted before.
  [[nodiscard]] Instant next_deadline() const;
  /// No frame should be admitted now: a line of this rate is busy, or too much is on the way.
  [[nodiscard]] bool full(Instant now) const;
  /// When everything that is admitted now will have left; {}: nothing is there.
  [[nodiscard]] Instant empty_at() const;

  [[nodiscard]] const FaultCounters& counters() const { return counters_; }

 private:
  struct Held {
    Frame frame;
    unsigned copies;
    unsigned overtakers;  // still to come
    Instant until;
  };
  struct InFlight {
    Frame frame;
    Instant due;
  };

  void tell(Fault what, const Frame& frame) const {
    if (observer_ != nullptr) observer_->struck(what, frame.bytes);
  }
  void corrupt(Frame& frame);
  void overtaken_by(const Frame& frame, Instant now);
  void release_overdue(Instant now);
  void enter_line(const Frame& frame, unsigned copies, Instant now);
  [[nodiscard]] Duration time_on_the_line(const Frame& frame) const;

  settings::FaultSpec spec_;
  // Apart: what happens to one frame, and how, doesn't change the fate of the next. And of other
  // seeds: else a frame that isn't dropped would be a late one.
  std::mt19937_64 fates_;
  std::mt19937_64 details_;
  FaultCounters counters_;
  Observer* observer_ = nullptr;
  std::deque<Held> held_;      // in the order of `until`
  std::deque<InFlight> line_;  // in the order of `due`: jitter doesn't reorder
  std::size_t bytes_ = 0;      // in both
  Instant line_free_{};
};

}  // namespace verbena::wire
