// A message to the other end and one back, one at a time. A time is half of that; for READ it is
// all of it.

#include <fmt/format.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "tools/bench/ends/ends.h"
#include "tools/bench/ends/meter.h"
#include "tools/bench/ends/rdma_end.h"
#include "tools/bench/ends/round_trips.h"

namespace verbena::bench {
namespace {

constexpr std::chrono::milliseconds kLost{200};  // then an answer over UC or UD doesn't come
constexpr std::uint32_t kDepth = 64;
constexpr std::uint32_t kSignalEvery = 16;

/// The same with a depth for requests that overlap, however little.
Spec with_depth(Spec spec) {
  spec.depth = kDepth;
  spec.queue_pairs = 1;
  return spec;
}

/// Both ends of a ping-pong.
class Player {
 public:
  Player(RdmaEnd& end, const Spec& spec, Control& control)
      : end_{end}, control_{control}, by_memory_{spec.operation == "write"} {}

  /// A message whose last byte is this.
  void send(std::uint8_t mark) {
    *end_.last_byte_out() = mark;
    end_.post(0, ++sent_ % kSignalEvery == 0);
  }
  /// Waits until a message comes; false: none by then. With `or_control`, also returns false when
  /// the other end says something.
  [[nodiscard]] bool receive(std::uint8_t unlike, Clock::time_point until, bool or_control) {
    for (;;) {
      if (by_memory_ ? arrived_in_memory(unlike) : arrived()) return true;
      if (!seldom_.due() && !naps_) continue;
      if (control_.is_readable()) {
        if (or_control) return false;
        control_.check_alive();
      }
      if (Clock::now() >= until) return false;
    }
  }
  void use_naps() { naps_ = true; }
  [[nodiscard]] std::uint8_t last_mark() { return load(); }

 private:
  [[nodiscard]] std::uint8_t load() {
    return std::atomic_ref{*end_.last_byte_in()}.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool arrived_in_memory(std::uint8_t unlike) {
    if (load() != unlike) return true;
    (void)end_.take();  // completions of own requests; lets a device without a processor work
    return false;
  }
  [[nodiscard]] bool arrived() {
    while (waiting_ == 0) {
      const auto done = end_.take();
      if (done.empty()) return false;
      for (const rdma::Completion& one : done) {
        if ((one.opcode & IBV_WC_RECV) == 0) continue;
        end_.post_receive(0);
        ++waiting_;
      }
    }
    --waiting_;
    return true;
  }

  RdmaEnd& end_;
  Control& control_;
  bool by_memory_;
  bool naps_ = false;  // each look takes time anyway
  std::uint32_t sent_ = 0;
  std::uint32_t waiting_ = 0;  // messages that came and were not asked for yet
  Seldom seldom_;
};

Sample measure_reads(const Spec& spec, RdmaEnd& end, Control& control) {
  Seldom seldom;
  return measure_round_trips(spec, 1, [&] {
    end.post(0, true);
    while (end.take().empty()) {
      if (seldom.due()) control.check_alive();
    }
    return true;
  });
}

Sample measure_ping_pong(const Spec& spec, RdmaEnd& end, Control& control) {
  Player player{end, spec, control};
  if (spec.completion == "events") player.use_naps();
  std::uint8_t mark = 0;
  const bool reliable = spec.service == "RC";
  return measure_round_trips(spec, 2, [&] {
    const std::uint8_t before = player.last_mark();
    if (++mark == before) ++mark;
    player.send(mark);
    const auto until = Clock::now() + (reliable ? Clock::duration{Control::kPatience} : kLost);
    if (player.receive(before, until, false)) return true;
    if (reliable) throw Failed{"the other end doesn't answer"};
    return false;
  });
}

}  // namespace

Outcome drive_rdma_latency(const Spec& wanted, Meeting& meeting) {
  const Spec spec = with_depth(wanted);
  const bool read = spec.operation == "read";
  RdmaEnd end{spec, meeting.device, meeting.control, spec.operation == "send" ? kDepth : 0};
  Sample sample = read ? measure_reads(spec, end, meeting.control)
                       : measure_ping_pong(spec, end, meeting.control);
  if (sample.times.total() == 0) throw Failed{"no message was answered"};
  meeting.control.send("done");
  (void)meeting.control.recv();
  return {std::move(sample), end.device()};
}

std::string serve_rdma_latency(const Spec& wanted, Meeting& meeting) {
  const Spec spec = with_depth(wanted);
  RdmaEnd end{spec, meeting.device, meeting.control, spec.operation == "send" ? kDepth : 0};
  const auto until =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(2 * spec.seconds) + 2 * Control::kPatience);
  if (spec.operation != "read") {
    Player player{end, spec, meeting.control};
    if (spec.completion == "events") player.use_naps();
    std::uint8_t seen = 0;
    while (player.receive(seen, until, true)) {
      seen = player.last_mark();
      player.send(seen);
    }
  }
  (void)meeting.control.recv(until);
  meeting.control.send("done");
  return end.device();
}

}  // namespace verbena::bench
