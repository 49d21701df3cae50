// A stream of messages: `depth` of them are posted and not complete on each queue pair, all of one
// buffer.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/ends/ends.h"
#include "tools/bench/ends/meter.h"
#include "tools/bench/ends/rdma_end.h"

namespace verbena::bench {
namespace {

/// Completions at the target tell what arrived: of SENDs, and of WRITEs over UC, which have
/// immediate data.
bool target_counts(const Spec& spec) {
  return spec.operation == "send" || (spec.operation == "write" && spec.service == "UC");
}

std::uint32_t receives_of(const Spec& spec) { return target_counts(spec) ? 2 * spec.depth : 0; }

/// The end that posts the requests.
class Stream {
 public:
  Stream(RdmaEnd& end, const Spec& spec, Control& control)
      : end_{end},
        control_{control},
        batch_{std::clamp(spec.depth / 4, 1u, 16u)},
        depth_{std::max(spec.depth / batch_ * batch_, batch_)} {
    for (std::uint32_t qp = 0; qp < end.queue_pairs(); ++qp) {
      for (std::uint32_t n = 0; n < depth_; n += batch_) post_batch(qp);
    }
  }

  /// Messages that completed within about this time, at least one, and the exact time.
  struct Part {
    std::uint64_t messages;
    double seconds;
  };
  [[nodiscard]] Part run_for(double seconds) {
    const std::uint64_t before = completed_;
    const auto begin = Clock::now();
    auto now = begin;
    do {
      take(/*post_again=*/true);
      now = Clock::now();
    } while (seconds_between(begin, now) < seconds || completed_ == before);
    return {completed_ - before, seconds_between(begin, now)};
  }
  /// Until everything that was posted is complete; how much that was.
  [[nodiscard]] std::uint64_t drain() {
    while (completed_ < posted_) take(/*post_again=*/false);
    return completed_;
  }

 private:
  /// The last of them is signaled: its completion stands for all.
  void post_batch(std::uint32_t qp) {
    for (std::uint32_t n = 1; n <= batch_; ++n) end_.post(qp, n == batch_);
    posted_ += batch_;
  }
  void take(bool post_again) {
    const auto done = end_.take();
    if (done.empty() && seldom_.due()) control_.check_alive();
    for (const rdma::Completion& one : done) {
      completed_ += batch_;
      if (post_again) post_batch(static_cast<std::uint32_t>(one.wr_id));
    }
  }

  RdmaEnd& end_;
  Control& control_;
  std::uint32_t batch_;  // each of which makes one completion
  std::uint32_t depth_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  Seldom seldom_;
};

/// What the target received, when all was posted again.
struct Received {
  std::uint64_t messages = 0;
  Clock::time_point first;
  Clock::time_point last;
};

/// Until the other end has posted its last message, and what arrived of it has been taken.
Received receive(RdmaEnd& end, const Spec& spec, Control& control) {
  // Then nothing comes any more.
  const std::chrono::milliseconds silence =
      spec.service == "RC" ? Control::kPatience : std::chrono::milliseconds{100};
  Received received;
  std::optional<std::uint64_t> sent;
  Seldom seldom;
  const bool events = spec.completion == "events";
  auto last_news = Clock::now();
  while (!sent || received.messages < *sent) {
    const auto done = end.take();
    if (done.empty()) {
      if (!events && !seldom.due()) continue;
      if (!sent && control.is_readable()) {
        sent = std::stoull(control.recv());
        last_news = Clock::now();
      }
      if (sent && Clock::now() - last_news > silence) {
        if (spec.service == "RC") throw Failed{"messages are missing that were acknowledged"};
        break;
      }
      continue;
    }
    last_news = Clock::now();
    if (received.messages == 0) received.first = last_news;
    received.last = last_news;
    for (const rdma::Completion& one : done) {
      end.post_receive(static_cast<std::uint32_t>(one.wr_id));
    }
    received.messages += done.size();
  }
  return received;
}

}  // namespace

Outcome drive_rdma_bandwidth(const Spec& spec, Meeting& meeting) {
  RdmaEnd end{spec, meeting.device, meeting.control, 0};
  const double cpu = cpu_seconds();
  Stream stream{end, spec, meeting.control};
  (void)stream.run_for(spec.seconds / 10);
  const auto part = stream.run_for(spec.seconds);
  const std::uint64_t sent = stream.drain();
  const double own_cpu = cpu_seconds() - cpu;
  meeting.control.send(std::to_string(sent));
  const auto target = nlohmann::json::parse(meeting.control.recv());

  const auto size = static_cast<double>(spec.size);
  double rate = static_cast<double>(part.messages) / part.seconds;
  double arrived = static_cast<double>(sent);
  Sample sample;
  if (target_counts(spec) && spec.service != "RC") {  // a completion says only that it has left
    arrived = target.at("messages").get<double>();
    if (arrived < 2) throw Failed{"of the messages that were sent less than two arrived"};
    rate = arrived / std::max(target.at("seconds").get<double>(), 1e-9);
    sample.figures["lost_percent"] = 100 * (1 - arrived / static_cast<double>(sent));
  }
  const double gigabytes = arrived * size / 1e9;
  double sender = own_cpu / gigabytes;
  double receiver = target.at("cpu_seconds").get<double>() / gigabytes;
  if (spec.operation == "read")
    std::swap(sender, receiver);  // the sender of the bytes is the target
  sample.figures["gb_per_s"] = rate * size / 1e9;
  sample.figures["messages_per_s"] = rate;
  sample.figures["sender_cpu_s_per_gb"] = sender;
  sample.figures["receiver_cpu_s_per_gb"] = receiver;
  sample.figures["cpu_s_per_gb"] = sender + receiver;
  return {std::move(sample), end.device()};
}

std::string serve_rdma_bandwidth(const Spec& spec, Meeting& meeting) {
  RdmaEnd end{spec, meeting.device, meeting.control, receives_of(spec)};
  const double cpu = cpu_seconds();
  Received received;
  if (target_counts(spec)) {
    received = receive(end, spec, meeting.control);
  } else {  // the target of WRITEs and READs takes no part
    received.messages = std::stoull(
        meeting.control.recv(std::chrono::duration<double>(2 * spec.seconds) + Control::kPatience));
  }
  const nlohmann::json report{{"messages", received.messages},
                              {"seconds", seconds_between(received.first, received.last)},
                              {"cpu_seconds", cpu_seconds() - cpu}};
  meeting.control.send(report.dump());
  return end.device();
}

}  // namespace verbena::bench
