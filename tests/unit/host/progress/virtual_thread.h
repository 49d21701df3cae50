#pragma once

// A NIC thread in virtual time: carries out the steps of a ProgressPolicy as NicThread does, with
// a socket, a control descriptor and other threads that are numbers and flags here.

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "host/progress/progress_policy.h"

namespace verbena::host {

class VirtualThread {
 public:
  using Step = ProgressPolicy::Step;
  using Kind = ProgressPolicy::Step::Kind;

  // What a step takes. A thread that slept needs longer than a program that polls.
  static constexpr Duration kStepTime = std::chrono::microseconds{1};
  static constexpr Duration kWakeTime = std::chrono::microseconds{5};

  struct Entry {
    Instant begin;
    Step step;
  };

  VirtualThread() : step_{policy_.start(now_)} {}

  /// Something that another thread or the network does then.
  void at(Instant when, std::function<void()> what) { events_.emplace(when, std::move(what)); }

  void run_until(Instant end) {
    while (now_ < end) {
      steps.push_back({now_, step_});
      step_ = carry_out(step_, end);
    }
  }

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] bool will_look() const { return aside; }
  /// The step that is carried out just now.
  [[nodiscard]] const Step& step() const { return step_; }

  // What other threads say.
  void poll_in_vain() {
    last_poll = now_;
    poller_waits = true;
  }
  void return_to_duty() {
    poller_waits = false;
    if (std::exchange(aside, false)) woken = true;
  }

  [[nodiscard]] std::size_t count(Kind kind, Instant from = {}, Instant to = kNever) const {
    return static_cast<std::size_t>(std::count_if(steps.begin(), steps.end(), [&](const Entry& e) {
      return e.step.kind == kind && e.begin >= from && e.begin < to;
    }));
  }
  /// When a step of this kind first began at or after `from`, kNever if none did.
  [[nodiscard]] Instant first(Kind kind, Instant from = {}) const {
    for (const Entry& e : steps)
      if (e.step.kind == kind && e.begin >= from) return e.begin;
    return kNever;
  }
  /// How long each nap was meant to be, the first one included.
  [[nodiscard]] std::vector<Duration> naps() const {
    std::vector<Duration> lengths;
    for (const Entry& e : steps)
      if (e.step.kind == Kind::step_aside || e.step.kind == Kind::nap)
        lengths.push_back(e.step.until - e.begin);
    return lengths;
  }

  int packets = 0;  // in the socket
  bool control = false;
  bool woken = false;  // wake_by(), return_to_duty()
  bool core_is_spare = false;
  Instant deadline = kNever;  // the engine's
  Instant last_poll{};
  bool poller_waits = false;
  bool aside = false;

  std::vector<Entry> steps;
  int received = 0;  // by this thread

 private:
  [[nodiscard]] ProgressPolicy::Facts facts() const {
    return {.now = now_, .last_poll = last_poll, .poller_waits = poller_waits, .recalled = !aside};
  }

  /// What happens meanwhile, happens.
  void advance(Instant to) {
    while (!events_.empty() && events_.begin()->first <= to) {
      auto event = events_.extract(events_.begin());
      now_ = std::max(now_, event.key());
      event.mapped()();
    }
    now_ = std::max(now_, to);
  }

  [[nodiscard]] ProgressPolicy::Wakeup ready(bool with_data) const {
    return {.data = with_data && packets > 0, .control = control, .other = woken};
  }

  [[nodiscard]] ProgressPolicy::Wakeup wait(bool with_data, Instant until, Instant end) {
    ProgressPolicy::Wakeup wakeup = ready(with_data);
    const bool sleeps = !wakeup.any() && until > now_;
    while (!wakeup.any() && now_ < until && now_ < end) {
      const Instant next = events_.empty() ? kNever : events_.begin()->first;
      advance(std::min({next, until, end}));
      wakeup = ready(with_data);
    }
    advance(now_ + (sleeps ? kWakeTime : kStepTime));
    woken = woken && !wakeup.other;
    return wakeup;
  }

  Step work() {
    const bool useful = packets > 0;
    received += std::exchange(packets, 0);
    control = false;
    if (deadline <= now_) deadline = kNever;
    advance(now_ + kStepTime);
    return policy_.worked({.deadline = deadline, .useful = useful}, facts());
  }

  Step carry_out(const Step& step, Instant end) {
    switch (step.kind) {
      case Kind::work:
        return work();
      case Kind::ask_for_core:
        advance(now_ + kStepTime);
        return policy_.asked(core_is_spare, now_);
      case Kind::look: {
        const ProgressPolicy::Wakeup wakeup = wait(true, now_, end);
        return policy_.looked(wakeup, facts());
      }
      case Kind::stand_by:
      case Kind::sleep: {
        const ProgressPolicy::Wakeup wakeup = wait(true, step.until, end);
        if (!wakeup.any() && now_ < step.until) return step;  // the test ends first
        return policy_.woken(wakeup, facts());
      }
      case Kind::step_aside:
        aside = true;
        [[fallthrough]];
      case Kind::nap: {
        const ProgressPolicy::Wakeup wakeup = wait(false, step.until, end);
        return policy_.napped(wakeup, facts());
      }
      case Kind::come_back:
        aside = false;
        return policy_.came_back(facts());
    }
    return step;
  }

  ProgressPolicy policy_;
  Instant now_ = Instant{} + std::chrono::hours{1};
  Step step_;
  std::multimap<Instant, std::function<void()>> events_;
};

}  // namespace verbena::host
