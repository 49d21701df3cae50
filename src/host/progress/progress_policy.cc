#include "host/progress/progress_policy.h"

#include <algorithm>
#include <utility>

namespace verbena::host {

namespace {

/// A program polls and has found nothing yet.
bool polls_now(const ProgressPolicy::Facts& facts) {
  return facts.poller_waits && facts.now - facts.last_poll <= ProgressPolicy::kPolling;
}

bool is_relieved(const ProgressPolicy::Facts& facts) {
  return facts.relieved || facts.now - facts.relief_ended < ProgressPolicy::kReliefGrace;
}

}  // namespace

ProgressPolicy::Step ProgressPolicy::start(Instant now) {
  round_ = {.deadline = now};
  return wait_for_more({.now = now});
}

ProgressPolicy::Step ProgressPolicy::wait_for_more(const Facts& facts) {
  waiting_since_ = facts.now;
  if (is_relieved(facts)) return stand_by(facts);
  if (!data_came_soon_ || polls_now(facts))
    return {.kind = Step::Kind::sleep, .until = round_.deadline};
  return {.kind = Step::Kind::ask_for_core,
          .until = round_.deadline,
          .others = round_.woke ? std::size_t{1} : std::size_t{0}};
}

ProgressPolicy::Step ProgressPolicy::stand_by(const Facts& facts) {
  const bool came_and_went = std::exchange(relief_seen_, facts.relief_ended) != facts.relief_ended;
  look_ = came_and_went || look_ == Duration{0} ? kReliefGrace : std::min(2 * look_, kRarestLook);
  Instant until = facts.now + look_;
  if (!facts.relieved) until = facts.relief_ended + kReliefGrace;
  if (facts.relieved && look_ == kRarestLook) until = facts.now + kForgotten;
  return {.kind = Step::Kind::stand_by, .until = std::min(until, round_.deadline)};
}

ProgressPolicy::Step ProgressPolicy::asked(bool core_is_spare, Instant now) {
  if (!core_is_spare) return {.kind = Step::Kind::sleep, .until = round_.deadline};
  linger_until_ = std::min(round_.deadline, now + kLinger);
  return {.kind = Step::Kind::look, .until = round_.deadline};
}

ProgressPolicy::Step ProgressPolicy::looked(const Wakeup& wakeup, const Facts& facts) {
  if (wakeup.any()) return work_after(wakeup, facts);
  if (is_relieved(facts)) return stand_by(facts);
  const bool again = facts.now < linger_until_ && !polls_now(facts);
  return {.kind = again ? Step::Kind::look : Step::Kind::sleep, .until = round_.deadline};
}

ProgressPolicy::Step ProgressPolicy::woken(const Wakeup& wakeup, const Facts& facts) {
  data_came_soon_ = wakeup.data && facts.now - waiting_since_ < kLinger;
  return work_after(wakeup, facts);
}

ProgressPolicy::Step ProgressPolicy::work_after(const Wakeup& wakeup, const Facts& facts) {
  woken_by_data_ = wakeup.data;
  poller_waited_ = polls_now(facts);
  return {.kind = Step::Kind::work, .control = wakeup.control};
}

ProgressPolicy::Step ProgressPolicy::worked(const Round& round, const Facts& facts) {
  if (aside_) return nap_or_come_back(facts);
  round_ = round;
  // A poller would have got the data, too: it only lost its core to this thread.
  if (woken_by_data_) outrun_ = round.useful && !poller_waited_ ? 0 : outrun_ + 1;
  return outrun_ < kOutrunLimit ? wait_for_more(facts) : step_aside(facts);
}

ProgressPolicy::Step ProgressPolicy::step_aside(const Facts& facts) {
  aside_ = true;
  outrun_ = 0;
  nap_ = kAsideMin;
  return {.kind = Step::Kind::step_aside, .until = facts.now + nap_};
}

ProgressPolicy::Step ProgressPolicy::napped(const Wakeup& wakeup, const Facts& facts) {
  if (wakeup.control) return {.kind = Step::Kind::work, .control = true};
  return nap_or_come_back(facts);
}

ProgressPolicy::Step ProgressPolicy::nap_or_come_back(const Facts& facts) {
  if (facts.recalled) return {.kind = Step::Kind::come_back};
  const Duration silence = facts.now - facts.last_poll;
  if (silence <= kPolling) {
    nap_ = std::min(2 * nap_, kAsideMax);
    return {.kind = Step::Kind::nap, .until = facts.now + nap_};
  }
  const Duration grace = nap_ / kGraceShare;
  if (silence > grace) return {.kind = Step::Kind::come_back};
  return {.kind = Step::Kind::nap, .until = facts.last_poll + grace};
}

ProgressPolicy::Step ProgressPolicy::came_back(const Facts& facts) {
  aside_ = false;
  round_.deadline = facts.now;  // the poller may have left something to do
  return wait_for_more(facts);
}

}  // namespace verbena::host
