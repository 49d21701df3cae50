// The producer: steps 2, 3 and 6.

#include <poll.h>

#include <cerrno>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/inference-ring/latency.h"
#include "labs/inference-ring/settings.h"

namespace {

using Clock = std::chrono::steady_clock;

/// What the server offers.
Offer offer_of(const rdma::Connection& connection) {
  const auto offer = lab::offered<Offer>(connection);
  lab::check(offer.slots != 0 && offer.ring.length >= offer.slots,
             "the server offers a ring of {} bytes in {} slots", offer.ring.length, offer.slots);
  return offer;
}

class Producer {
 public:
  explicit Producer(const lab::Options& options)
      : options_{options},
        connection_{connect(options)},
        ring_{offer_of(connection_).ring},
        slots_{offer_of(connection_).slots},
        size_{ring_.length / slots_},
        staging_{connection_.buffer(ring_.length)} {}

  [[nodiscard]] std::uint64_t slots() const { return slots_; }
  [[nodiscard]] std::uint64_t batch_size() const { return size_; }

  /// Batches that are due at fixed times, whatever the consumer does.
  Phase run(std::string name) {
    phase_ = {.name = std::move(name)};
    while (consumed_ < written_) take_event_until(options_.deadline);  // begin with an empty ring
    const auto start = Clock::now();
    for (const std::uint64_t i : lab::rounds(options_.iters)) {
      const auto due = start + static_cast<Clock::rep>(i) * Clock::duration{settings.gap};
      while (Clock::now() < due) take_event_until(due);
      due_.push_back(due);
      wait_for_room();
      write_batch();
    }
    while (consumed_ < written_) take_event_until(options_.deadline);
    return phase_;
  }

  std::uint64_t end() {
    while (!report_) take_event_until(options_.deadline);
    lab::say_goodbye(options_, connection_);
    return *report_;
  }

 private:
  /// 2. Receives for the consumer's words: as many as can be under way, and the report.
  static rdma::Connection connect(const lab::Options& options) {
    rdma::ConnectionOptions wanted = lab::within(options);
    wanted.recv_depth = wanted.send_depth = kDepth;
    wanted.offer(Plan{options.iters});
    wanted.prepare = [](rdma::Connection& connection) {
      for (std::uint32_t i = 0; i < kDepth; ++i) connection.post(rdma::Recv{}).check();
    };
    return lab::connect(options, wanted);
  }

  /// 6. Backpressure: a full ring stops the producer, and only the consumer can let it go on.
  void wait_for_room() {
    const auto since = Clock::now();
    bool held_up = false;
    while (true) {
      const bool full = settings.credits && written_ - consumed_ == slots_;
      if (!full && in_flight_ < std::min<std::uint64_t>(slots_, kDepth)) break;
      held_up = held_up || full;
      take_event_until(options_.deadline);
    }
    if (!held_up) return;
    ++phase_.held_up;
    phase_.waited += std::chrono::duration<double>(Clock::now() - since).count();
  }

  /// 3. The batch and its id in one request: the id can't arrive before the bytes.
  void write_batch() {
    const std::uint64_t at = written_ % slots_ * size_;
    lab::fill_pattern(staging_.bytes().subspan(at, size_), written_);
    rdma::Write write{staging_.slice(at, size_), ring_.slice(at, size_)};
    connection_.post(write.imm(static_cast<std::uint32_t>(written_)).signaled()).check();
    ++in_flight_;
    ++written_;
    phase_.most_in_ring = std::max(phase_.most_in_ring, written_ - consumed_);
  }

  /// Sleeps until a completion came (and takes it), or that time. To the microsecond: a load
  /// that comes in bursts of milliseconds would measure itself.
  void take_event_until(Clock::time_point until) {
    rdma::CompletionQueue& cq = connection_.cq();
    if (const auto done = cq.poll()) return take(*done);
    lab::in_time(Clock::now() < options_.deadline, "a word from the consumer");
    if (!cq.armed()) return cq.arm();  // and poll once more: it may have come before
    const auto left = std::max(until - Clock::now(), Clock::duration{0});
    const timespec timeout{.tv_sec = left / std::chrono::seconds{1},
                           .tv_nsec = left % std::chrono::seconds{1} / std::chrono::nanoseconds{1}};
    pollfd events[] = {{.fd = cq.fd(), .events = POLLIN, .revents = 0},
                       {.fd = connection_.event_fd(), .events = POLLIN, .revents = 0}};
    lab::check(ppoll(events, 2, &timeout, nullptr) >= 0 || errno == EINTR, "ppoll: {}",
               std::strerror(errno));
    if (events[0].revents != 0) cq.take_event();
    lab::check(events[1].revents == 0 || connection_.connected(), "the consumer hung up");
  }

  void take(const rdma::Completion& done) {
    done.check();
    if (!done.is_receive()) {
      --in_flight_;
      return;
    }
    connection_.post(rdma::Recv{}).check();
    if ((done.imm() & kReport) != 0) {
      report_ = done.imm() & ~kReport;
      return;
    }
    // From when the batch was due, not from when it could be written: what waited before the ring
    // waited too.
    const auto now = Clock::now();
    for (; consumed_ < done.imm(); ++consumed_) {
      const std::chrono::duration<double, std::micro> took = now - due_[consumed_];
      phase_.latencies.push_back(took.count());
    }
  }

  static constexpr std::uint32_t kDepth = 128;  // batches, and words, under way

  const lab::Options& options_;
  rdma::Connection connection_;
  rdma::RemoteBuffer ring_;
  std::uint64_t slots_;
  std::uint64_t size_;
  rdma::Buffer staging_;
  Phase phase_{};
  std::vector<Clock::time_point> due_;  // by batch
  std::uint64_t in_flight_ = 0;
  std::uint64_t written_ = 0, consumed_ = 0;
  std::optional<std::uint64_t> report_;
};

}  // namespace

void producer(const lab::Options& options) {
  Producer producer{options};
  lab::say("a batch of {} bytes each {} us into {} slots", producer.batch_size(),
           settings.gap.count(), producer.slots());
  lab::Work work;
  const Phase steady = producer.run("steady");
  const Phase slow = producer.run("slow");
  work.done({.needed = 2 * options.iters});  // the credits: each batch's own says less
  const std::uint64_t overwritten = producer.end();
  lab::say(heading());
  lab::say(row(steady));
  lab::say(row(slow));
  if (!settings.credits) {
    lab::shown("without credits {} of {} batches were overwritten before they were consumed",
               overwritten, 2 * options.iters);
    return;
  }
  lab::check(overwritten == 0, "{} batches were overwritten", overwritten);
  const std::uint64_t most = std::max(steady.most_in_ring, slow.most_in_ring);
  lab::check(most <= producer.slots(), "{} batches in {} slots", most, producer.slots());
  lab::shown("a slow consumer held up {} of {} batches, none lost; p99.9 {:.1f} ms, steady {:.1f}",
             slow.held_up, options.iters, lab::percentile(slow.latencies, 0.999) / 1e3,
             lab::percentile(steady.latencies, 0.999) / 1e3);
}
