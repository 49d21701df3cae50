// ProgressPolicy by table: what just happened -> what the NIC thread does next. The numbers are
// written out, so that a changed constant is noticed.

#include "host/progress/progress_policy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/host/progress/policy_printing.h"

namespace verbena::host {
namespace {

using namespace std::chrono_literals;
using Facts = ProgressPolicy::Facts;
using Kind = ProgressPolicy::Step::Kind;
using Step = ProgressPolicy::Step;

constexpr Instant kStart = Instant{} + 1h;
constexpr Instant at(Duration after_start) { return kStart + after_start; }

constexpr ProgressPolicy::Wakeup kData{.data = true};
constexpr ProgressPolicy::Wakeup kControl{.control = true};
constexpr ProgressPolicy::Wakeup kOther{.other = true};
constexpr ProgressPolicy::Wakeup kTimeIsOver{};

constexpr Step kWork{.kind = Kind::work};
constexpr Step kWorkOnControl{.kind = Kind::work, .control = true};
constexpr Step kComeBack{.kind = Kind::come_back};
constexpr Step sleep_until(Instant until) { return {.kind = Kind::sleep, .until = until}; }
constexpr Step nap_until(Instant until) { return {.kind = Kind::nap, .until = until}; }
constexpr Step look_until(Instant deadline) { return {.kind = Kind::look, .until = deadline}; }

constexpr ProgressPolicy::Round useful(Instant deadline) {
  return {.deadline = deadline, .useful = true};
}
constexpr ProgressPolicy::Round useless(Instant deadline) { return {.deadline = deadline}; }

/// A program that polled `ago` before, in vain, and will again.
constexpr Facts polled(Instant now, Duration ago) {
  return {.now = now, .last_poll = now - ago, .poller_waits = true};
}

/// On duty, asleep since kStart.
ProgressPolicy asleep() {
  ProgressPolicy policy;
  EXPECT_EQ(policy.start(kStart - 1s), sleep_until(kStart - 1s));
  EXPECT_EQ(policy.woken(kTimeIsOver, {.now = kStart}), kWork);
  EXPECT_EQ(policy.worked(useless(kNever), {.now = kStart}), sleep_until(kNever));
  return policy;
}

/// Woken by data so many times, a poller faster each time; at kStart.
Step outrun(ProgressPolicy& policy, int times) {
  Step step{};
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(policy.woken(kData, {.now = kStart}), kWork);
    step = policy.worked(useless(kNever), polled(kStart, 60us));
    if (step.kind == Kind::ask_for_core) step = policy.asked(false, kStart);
  }
  return step;
}

/// Aside: the first nap ends at 50 us.
ProgressPolicy aside() {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(outrun(policy, 8), (Step{.kind = Kind::step_aside, .until = at(50us)}));
  return policy;
}

/// Aside, with naps that have grown to this; a program polls until `end` at least.
ProgressPolicy aside_with_naps_of(Duration nap, Instant end) {
  ProgressPolicy policy = aside();
  for (Duration usual = 50us; usual < nap; usual *= 2)
    EXPECT_EQ(policy.napped(kTimeIsOver, polled(end, 0us)), nap_until(end + 2 * usual));
  return policy;
}

TEST(ProgressPolicy, BeginsWithALookAndARoundOfWork) {
  ProgressPolicy policy;
  EXPECT_EQ(policy.start(kStart), sleep_until(kStart));
  EXPECT_EQ(policy.woken(kTimeIsOver, {.now = kStart}), kWork);
}

TEST(ProgressPolicy, SleepsUntilTheDeadlineOfTheLastRound) {
  for (const Instant deadline : {at(1us), at(7ms), kNever}) {
    ProgressPolicy policy = asleep();
    EXPECT_EQ(policy.woken(kOther, {.now = kStart}), kWork);
    EXPECT_EQ(policy.worked(useless(deadline), {.now = kStart}), sleep_until(deadline));
  }
}

TEST(ProgressPolicy, WorksWhateverEndedItsSleep) {
  EXPECT_EQ(asleep().woken(kData, {.now = kStart}), kWork);
  EXPECT_EQ(asleep().woken(kOther, {.now = kStart}), kWork);
  EXPECT_EQ(asleep().woken(kTimeIsOver, {.now = kStart}), kWork);
  EXPECT_EQ(asleep().woken(kControl, {.now = kStart}), kWorkOnControl);
  EXPECT_EQ(asleep().woken({.data = true, .control = true}, {.now = kStart}), kWorkOnControl);
}

// ---- Lingering

struct WorthSpinning {
  std::string what;
  ProgressPolicy::Wakeup wakeup;
  Duration after;  // the thread began to wait
  Facts facts;     // when the round was over; its `now` is set by the test
  bool expected;
};

TEST(ProgressPolicy, SpinsOnlyForDataThatComesSoonAndThatNobodyElseWaitsFor) {
  const Instant poll = at(10us);
  const std::vector<WorthSpinning> table{
      {"data at once", kData, 0us, {}, true},
      {"data just in time", kData, 50us - 1ns, {}, true},
      {"data too late", kData, 50us, {}, false},
      {"control", kControl, 1us, {}, false},
      {"a wake-up", kOther, 1us, {}, false},
      {"a deadline", kTimeIsOver, 1us, {}, false},
      {"data and control", {.data = true, .control = true}, 1us, {}, true},
      {"a program polls", kData, 30us, {.last_poll = poll, .poller_waits = true}, false},
      {"it stopped 20 us ago", kData, 30us + 1ns, {.last_poll = poll, .poller_waits = true}, true},
      {"it found something", kData, 30us, {.last_poll = poll}, true},
  };
  for (const WorthSpinning& row : table) {
    ProgressPolicy policy = asleep();
    Facts facts = row.facts;
    facts.now = at(row.after);
    static_cast<void>(policy.woken(row.wakeup, facts));
    const Step step = policy.worked(useful(at(1s)), facts);
    EXPECT_EQ(step.kind == Kind::ask_for_core, row.expected) << row.what;
    EXPECT_EQ(step.until, at(1s)) << row.what;
  }
}

/// On duty since kStart, and about to ask for a core.
ProgressPolicy asking(Instant deadline, bool woke = false) {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(policy.woken(kData, {.now = kStart}), kWork);
  EXPECT_EQ(policy.worked({.deadline = deadline, .useful = true, .woke = woke}, {.now = kStart}),
            (Step{.kind = Kind::ask_for_core, .until = deadline, .others = woke ? 1u : 0u}));
  return policy;
}

TEST(ProgressPolicy, AWokenProgramNeedsACore) {
  static_cast<void>(asking(kNever, false));
  static_cast<void>(asking(kNever, true));
}

TEST(ProgressPolicy, DoesNotSpinWithoutASpareCore) {
  EXPECT_EQ(asking(at(1s)).asked(false, at(1us)), sleep_until(at(1s)));
  EXPECT_EQ(asking(at(1s)).asked(true, at(1us)), look_until(at(1s)));
}

TEST(ProgressPolicy, SpinsForFiftyMicroseconds) {
  ProgressPolicy policy = asking(at(1s));
  EXPECT_EQ(policy.asked(true, at(1us)), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(2us)}), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(51us - 1ns)}), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(51us)}), sleep_until(at(1s)));
}

TEST(ProgressPolicy, SpinsNotPastTheDeadline) {
  ProgressPolicy policy = asking(at(10us));
  EXPECT_EQ(policy.asked(true, at(1us)), look_until(at(10us)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(10us - 1ns)}), look_until(at(10us)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(10us)}), sleep_until(at(10us)));
}

TEST(ProgressPolicy, StopsSpinningForAProgramThatPolls) {
  ProgressPolicy policy = asking(at(1s));
  EXPECT_EQ(policy.asked(true, at(1us)), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, polled(at(2us), 0us)), sleep_until(at(1s)));
}

TEST(ProgressPolicy, WorksOnWhatItFindsWhileSpinningAndSpinsAgain) {
  for (const auto& found : {kData, kControl, kOther}) {
    ProgressPolicy policy = asking(at(1s));
    EXPECT_EQ(policy.asked(true, at(1us)), look_until(at(1s)));
    EXPECT_EQ(policy.looked(found, {.now = at(2us)}), found.control ? kWorkOnControl : kWork);
    EXPECT_EQ(policy.worked(useful(at(2s)), {.now = at(3us)}),
              (Step{.kind = Kind::ask_for_core, .until = at(2s)}));
  }
}

TEST(ProgressPolicy, SpinsInVainOnce) {
  ProgressPolicy policy = asking(at(1s));
  EXPECT_EQ(policy.asked(true, kStart), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(50us)}), sleep_until(at(1s)));
  EXPECT_EQ(policy.woken(kData, {.now = at(51us)}), kWork);
  EXPECT_EQ(policy.worked(useful(at(1s)), {.now = at(52us)}), sleep_until(at(1s)));
}

// ---- Relieved by a thread that waits for events

constexpr Step stand_by_until(Instant until) { return {.kind = Kind::stand_by, .until = until}; }
/// A thread watches the bells; the last one before it stopped then.
constexpr Facts relieved(Instant now, Instant ended = Instant{}) {
  return {.now = now, .relieved = true, .relief_ended = ended};
}

TEST(ProgressPolicy, StandsByWhileAThreadWatchesTheBells) {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(policy.woken(kData, relieved(kStart)), kWork);
  EXPECT_EQ(policy.worked(useful(kNever), relieved(kStart)), stand_by_until(at(1ms)));
}

TEST(ProgressPolicy, LooksMoreRarelyTheLongerNothingHappens) {
  ProgressPolicy policy = asleep();
  Instant now = kStart;
  static_cast<void>(policy.woken(kData, relieved(now)));
  for (const Duration look : {1ms, 2ms, 4ms, 8ms, 16ms, 32ms}) {
    EXPECT_EQ(policy.worked(useless(kNever), relieved(now)), stand_by_until(now + look));
    now += look;
    EXPECT_EQ(policy.woken(kTimeIsOver, relieved(now)), kWork);
  }
  EXPECT_EQ(policy.worked(useless(kNever), relieved(now)), stand_by_until(now + 1s));
  // The thread came and went meanwhile.
  EXPECT_EQ(policy.woken(kOther, relieved(now, now)), kWork);
  EXPECT_EQ(policy.worked(useless(kNever), relieved(now, now)), stand_by_until(now + 1ms));
}

TEST(ProgressPolicy, StandsByNotPastTheDeadline) {
  ProgressPolicy policy = asleep();
  static_cast<void>(policy.woken(kData, relieved(kStart)));
  EXPECT_EQ(policy.worked(useless(at(10us)), relieved(kStart)), stand_by_until(at(10us)));
}

TEST(ProgressPolicy, IsBackAMillisecondAfterTheThreadHasGone) {
  const auto gone = [](Instant now) { return Facts{.now = now, .relief_ended = kStart}; };
  ProgressPolicy policy = asleep();
  static_cast<void>(policy.woken(kOther, gone(kStart)));
  EXPECT_EQ(policy.worked(useless(kNever), gone(at(300us))), stand_by_until(at(1ms)));
  EXPECT_EQ(policy.woken(kTimeIsOver, gone(at(1ms))), kWork);
  EXPECT_EQ(policy.worked(useless(kNever), gone(at(1ms))), sleep_until(kNever));
}

TEST(ProgressPolicy, StopsSpinningForAThreadThatWatchesTheBells) {
  ProgressPolicy policy = asking(at(1s));
  EXPECT_EQ(policy.asked(true, at(1us)), look_until(at(1s)));
  EXPECT_EQ(policy.looked(kTimeIsOver, relieved(at(2us))), stand_by_until(at(1ms + 2us)));
}

// ---- Stepping aside

TEST(ProgressPolicy, StepsAsideWhenOutrunEightTimesInARow) {
  ProgressPolicy seven = asleep();
  EXPECT_EQ(outrun(seven, 7), sleep_until(kNever));
  ProgressPolicy eight = asleep();
  EXPECT_EQ(outrun(eight, 8), (Step{.kind = Kind::step_aside, .until = at(50us)}));
}

TEST(ProgressPolicy, DataOfItsOwnEndsTheCount) {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(outrun(policy, 7).kind, Kind::sleep);
  EXPECT_EQ(policy.woken(kData, {.now = at(1ms)}), kWork);
  EXPECT_EQ(policy.worked(useful(kNever), {.now = at(1ms)}), sleep_until(kNever));
  EXPECT_EQ(outrun(policy, 7).kind, Kind::sleep);
  EXPECT_EQ(outrun(policy, 1).kind, Kind::step_aside);
}

TEST(ProgressPolicy, WhateverElseWakesItDoesNotCount) {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(outrun(policy, 7).kind, Kind::sleep);
  for (const auto& wakeup : {kControl, kOther, kTimeIsOver}) {
    static_cast<void>(policy.woken(wakeup, {.now = kStart}));
    EXPECT_EQ(policy.worked(useless(kNever), {.now = kStart}), sleep_until(kNever));
    static_cast<void>(policy.woken(wakeup, {.now = kStart}));
    EXPECT_EQ(policy.worked(useful(kNever), {.now = kStart}), sleep_until(kNever));
  }
  EXPECT_EQ(outrun(policy, 1).kind, Kind::step_aside);
}

struct TakenFromAPoller {
  std::string what;
  Facts facts;  // when the thread woke up
  bool expected;
};

TEST(ProgressPolicy, WhatItTookFromAPollerCountsAsOutrun) {
  const std::vector<TakenFromAPoller> table{
      {"polls", polled(kStart, 0us), true},
      {"polled just now", polled(kStart, 20us), true},
      {"polled a while ago", polled(kStart, 20us + 1ns), false},
      {"found something", {.now = kStart, .last_poll = kStart}, false},
  };
  for (const TakenFromAPoller& row : table) {
    ProgressPolicy policy = asleep();
    EXPECT_EQ(outrun(policy, 7).kind, Kind::sleep);
    EXPECT_EQ(policy.woken(kData, row.facts), kWork);
    // What counts is who polled when the thread woke up, not later.
    const Step step = policy.worked(useful(kNever), {.now = at(1ms)});
    EXPECT_EQ(step.kind == Kind::step_aside, row.expected) << row.what;
  }
}

TEST(ProgressPolicy, NapsTwiceAsLongWhileAProgramPolls) {
  ProgressPolicy policy = aside();
  Instant now = at(50us);
  for (const Duration nap : {100us, 200us, 400us, 800us, 800us, 800us}) {
    EXPECT_EQ(policy.napped(kTimeIsOver, polled(now, 20us)), nap_until(now + nap));
    now += nap;
  }
}

TEST(ProgressPolicy, APollThatFoundSomethingIsAPoll) {
  ProgressPolicy policy = aside();
  EXPECT_EQ(policy.napped(kTimeIsOver, {.now = at(50us), .last_poll = at(30us)}),
            nap_until(at(150us)));
}

struct Silence {
  Duration nap;
  Duration silence;
  Duration more;  // < 0: comes back
};

TEST(ProgressPolicy, WaitsForAPollerAQuarterOfTheNap) {
  constexpr Duration kBack = -1ns;
  const std::vector<Silence> table{
      {50us, 20us, 100us},         {50us, 20us + 1ns, kBack},  // a quarter is shorter than 20 us
      {100us, 20us, 200us},        {100us, 21us, 4us},          {100us, 25us, 0us},
      {100us, 25us + 1ns, kBack},  {400us, 20us, 800us},        {400us, 60us, 40us},
      {400us, 100us + 1ns, kBack}, {800us, 20us, 800us},        {800us, 20us + 1ns, 180us - 1ns},
      {800us, 199us, 1us},         {800us, 200us + 1ns, kBack}, {800us, 800us, kBack},
  };
  for (const Silence& row : table) {
    const Instant end = at(10ms);
    ProgressPolicy policy = aside_with_naps_of(row.nap, end - row.silence);
    EXPECT_EQ(policy.napped(kTimeIsOver, polled(end, row.silence)),
              row.more < 0us ? kComeBack : nap_until(end + row.more))
        << row.nap.count() << " ns, silent for " << row.silence.count() << " ns";
  }
}

TEST(ProgressPolicy, ShortNapsForAPollerDoNotShortenTheNextOnes) {
  ProgressPolicy policy = aside_with_naps_of(400us, at(1ms));
  EXPECT_EQ(policy.napped(kTimeIsOver, polled(at(2ms), 90us)), nap_until(at(2ms + 10us)));
  EXPECT_EQ(policy.napped(kTimeIsOver, polled(at(2ms + 10us), 1us)), nap_until(at(2ms + 810us)));
}

TEST(ProgressPolicy, ComesBackWhenRecalledThoughAProgramPolls) {
  Facts facts = polled(at(10us), 0us);
  facts.recalled = true;
  EXPECT_EQ(aside().napped(kOther, facts), kComeBack);
  ProgressPolicy policy = aside();
  EXPECT_EQ(policy.napped(kControl, facts), kWorkOnControl);
  EXPECT_EQ(policy.worked(useful(kNever), facts), kComeBack);
}

TEST(ProgressPolicy, OnDutyARecallMeansNothing) {
  ProgressPolicy policy = asleep();
  EXPECT_EQ(policy.woken(kOther, {.now = kStart, .recalled = true}), kWork);
  EXPECT_EQ(policy.worked(useful(kNever), {.now = kStart, .recalled = true}), sleep_until(kNever));
}

TEST(ProgressPolicy, ServesControlAndStaysAside) {
  ProgressPolicy policy = aside();
  EXPECT_EQ(policy.napped(kControl, polled(at(10us), 0us)), kWorkOnControl);
  // The round's deadline is the poller's business.
  EXPECT_EQ(policy.worked(useful(at(11us)), polled(at(12us), 1us)), nap_until(at(112us)));
}

TEST(ProgressPolicy, ServesControlAndComesBackIfNobodyPolls) {
  ProgressPolicy policy = aside();
  EXPECT_EQ(policy.napped(kControl, polled(at(10us), 0us)), kWorkOnControl);
  EXPECT_EQ(policy.worked(useful(kNever), polled(at(40us), 21us)), kComeBack);
}

TEST(ProgressPolicy, BackOnDutyItWorksAtOnce) {
  ProgressPolicy policy = aside();
  EXPECT_EQ(policy.napped(kTimeIsOver, polled(at(200us), 60us)), kComeBack);
  // All eight wake-ups came soon: it would spin, but no longer than until now.
  EXPECT_EQ(policy.came_back({.now = at(200us)}),
            (Step{.kind = Kind::ask_for_core, .until = at(200us)}));
  EXPECT_EQ(policy.asked(true, at(201us)), look_until(at(200us)));
  EXPECT_EQ(policy.looked(kTimeIsOver, {.now = at(202us)}), sleep_until(at(200us)));
  EXPECT_EQ(policy.woken(kTimeIsOver, {.now = at(203us)}), kWork);
  EXPECT_EQ(policy.worked(useless(at(1s)), {.now = at(204us)}), sleep_until(at(1s)));
}

TEST(ProgressPolicy, BackOnDutyItStartsCountingAgainAndNapsAreShortAgain) {
  ProgressPolicy policy = aside_with_naps_of(800us, at(1ms));
  EXPECT_EQ(policy.napped(kTimeIsOver, polled(at(2ms), 800us)), kComeBack);
  static_cast<void>(policy.came_back({.now = kStart}));
  static_cast<void>(policy.woken(kTimeIsOver, {.now = kStart}));
  EXPECT_EQ(policy.worked(useless(kNever), {.now = kStart}), sleep_until(kNever));
  EXPECT_EQ(outrun(policy, 7).kind, Kind::sleep);
  EXPECT_EQ(outrun(policy, 1), (Step{.kind = Kind::step_aside, .until = at(50us)}));
}

}  // namespace
}  // namespace verbena::host
