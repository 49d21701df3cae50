// ProgressPolicy in virtual time: a NIC thread beside programs that poll, sleep, and do neither.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/host/progress/policy_printing.h"
#include "tests/unit/host/progress/virtual_thread.h"

namespace verbena::host {
namespace {

using namespace std::chrono_literals;
using Kind = ProgressPolicy::Step::Kind;

/// A program that polls every microsecond. A packet that it finds brings the next one, 10 us later
/// and between two polls: long enough to wake a thread that sleeps, which then comes too late.
class PollingProgram {
 public:
  explicit PollingProgram(VirtualThread& thread) : thread_{thread} {}

  void ping_pong_between(Instant from, Instant to) {
    thread_.at(from, [this] { ++thread_.packets; });
    poll_between(from + 500ns, to);
  }

  void poll_between(Instant from, Instant to) {
    thread_.at(from, [this, to] {
      poll();
      if (thread_.now() + 1us < to) poll_between(thread_.now() + 1us, to);
    });
  }

  int found = 0;

 private:
  void poll() {
    if (thread_.packets == 0) {
      thread_.poll_in_vain();
      return;
    }
    found += thread_.packets;
    thread_.packets = 0;
    thread_.poller_waits = false;
    thread_.at(thread_.now() + 9us + 500ns, [this] { ++thread_.packets; });
  }

  VirtualThread& thread_;
};

class ProgressSim : public testing::Test {
 protected:
  void packet_at(Instant when) {
    thread.at(when, [this] { ++thread.packets; });
  }
  void ping_pong(Instant end) { program.ping_pong_between(start, end); }

  VirtualThread thread;
  PollingProgram program{thread};
  const Instant start = thread.now() + 100us;
};

TEST_F(ProgressSim, NothingHappensForASecondAndTheThreadSleeps) {
  thread.run_until(start + 1s);
  EXPECT_EQ(thread.count(Kind::work), 1u);  // the one it begins with
  EXPECT_EQ(thread.steps.size(), 3u);       // look, work, sleep
  EXPECT_EQ(thread.steps.back().step.kind, Kind::sleep);
  EXPECT_EQ(thread.steps.back().step.until, kNever);
}

TEST_F(ProgressSim, NothingHappensForASecondAfterAPingPongAndTheThreadSleeps) {
  ping_pong(start + 10ms);
  thread.run_until(start + 1s);
  EXPECT_LT(thread.steps.back().begin, start + 12ms);
  EXPECT_EQ(thread.steps.back().step.kind, Kind::sleep);
}

// ---- A program that polls

TEST_F(ProgressSim, APingPongOutrunsTheThreadEightTimesAndThenHasThePacketsToItself) {
  ping_pong(start + 20ms);
  thread.run_until(start + 19ms);
  EXPECT_EQ(thread.count(Kind::step_aside), 1u);
  EXPECT_EQ(thread.count(Kind::come_back), 0u);
  EXPECT_EQ(thread.count(Kind::work, start), 8u);
  EXPECT_EQ(thread.received, 0);
  EXPECT_GT(program.found, 1500);
}

TEST_F(ProgressSim, NapsGrowFromFiftyMicrosecondsToEightHundred) {
  ping_pong(start + 20ms);
  thread.run_until(start + 3ms);
  EXPECT_EQ(thread.naps(), (std::vector<Duration>{50us, 100us, 200us, 400us, 800us, 800us, 800us}));
}

TEST_F(ProgressSim, BackOnDutyWithinAMillisecondOfTheLastPoll) {
  for (Duration length = 1ms; length < 4ms; length += 7us) {
    VirtualThread t;
    PollingProgram p{t};
    const Instant end = t.now() + length;
    p.ping_pong_between(t.now() + 100us, end);
    t.run_until(end + 2ms);
    EXPECT_LE(t.first(Kind::come_back), end + 830us) << "after " << length.count() << " ns";
    EXPECT_EQ(t.count(Kind::step_aside), 1u);
    EXPECT_FALSE(t.will_look());
  }
}

TEST_F(ProgressSim, WhoWasToldThatItWillLookIsServedWithinAMillisecond) {
  for (Duration length = 1ms; length < 4ms; length += 13us) {
    VirtualThread t;
    PollingProgram p{t};
    const Instant end = t.now() + length;
    p.ping_pong_between(t.now() + 100us, end);
    bool told = false;
    t.at(end, [&] { told = t.will_look(); });  // posts, and does nothing more
    t.run_until(end + 2ms);
    EXPECT_TRUE(told);
    EXPECT_LE(t.first(Kind::work, end), end + 1ms) << "after " << length.count() << " ns";
  }
}

TEST_F(ProgressSim, OnDutyItDoesNotSayThatItWillLook) {
  EXPECT_FALSE(thread.will_look());
  thread.run_until(start);
  EXPECT_FALSE(thread.will_look());
  ping_pong(start + 1ms);
  thread.run_until(start + 500us);
  EXPECT_TRUE(thread.will_look());
  thread.run_until(start + 3ms);
  EXPECT_FALSE(thread.will_look());
}

/// A ping-pong that pauses around the end of a nap of 800 us: from 100 us before it to `back`
/// after.
struct Pause {
  explicit Pause(Duration back) {
    {
      VirtualThread t;
      PollingProgram p{t};
      p.ping_pong_between(start, start + 10ms);
      t.run_until(start + 4ms);
      EXPECT_EQ(t.naps().back(), 800us);
      nap_end = t.steps.back().step.until;
    }
    program.ping_pong_between(start, nap_end - 100us);
    program.poll_between(nap_end + back, nap_end + 10ms);
    thread.run_until(nap_end + 5ms);
  }
  VirtualThread thread;
  PollingProgram program{thread};
  Instant start = thread.now() + 100us;
  Instant nap_end{};
};

TEST(ProgressSimPause, APollerThatLostItsCoreIsWaitedFor) {
  Pause pause{80us};
  const VirtualThread& thread = pause.thread;
  EXPECT_EQ(thread.count(Kind::step_aside), 1u);
  EXPECT_EQ(thread.count(Kind::come_back), 0u);
  // One nap for the rest of a quarter of 800 us, then as long as before.
  const std::vector<Duration> naps = thread.naps();
  EXPECT_EQ(std::count(naps.begin(), naps.begin() + 4, 800us), 0);
  EXPECT_EQ(std::count_if(naps.begin() + 4, naps.end(), [](Duration d) { return d < 800us; }), 1);
  const Instant wait = thread.first(Kind::nap, pause.nap_end);
  const Instant next = thread.first(Kind::nap, wait + 1us);
  EXPECT_LE(wait, pause.nap_end + 10us);
  EXPECT_GE(next, pause.nap_end + 99us);
  EXPECT_LE(next, pause.nap_end + 110us);
}

TEST(ProgressSimPause, APollerThatIsAwayForLongerIsNotWaitedFor) {
  const Pause pause{120us};
  const Instant back = pause.thread.first(Kind::come_back);
  EXPECT_GE(back, pause.nap_end + 99us);
  EXPECT_LE(back, pause.nap_end + 110us);
}

// ---- A program that sleeps, or watches its memory

TEST_F(ProgressSim, AProgramThatGoesToSleepGetsTheThreadBackAtOnce) {
  ping_pong(start + 3ms);
  thread.at(start + 3ms, [this] { thread.return_to_duty(); });
  packet_at(start + 3ms + 20us);
  thread.run_until(start + 3ms + 50us);
  EXPECT_LE(thread.first(Kind::come_back), start + 3ms + 10us);
  EXPECT_LE(thread.first(Kind::work, start + 3ms), start + 3ms + 10us);
  EXPECT_GE(thread.received, 1);
}

TEST_F(ProgressSim, AProgramThatFoundSomethingIsNotTakenForAPoller) {
  // It polls once for each packet, then watches its memory: the packets are the thread's.
  for (int i = 1; i <= 100; ++i) {
    packet_at(start + i * 100us);
    thread.at(start + i * 100us - 5us, [this] { thread.poll_in_vain(); });
    thread.at(start + i * 100us - 4us, [this] { thread.poller_waits = false; });
  }
  thread.run_until(start + 20ms);
  EXPECT_EQ(thread.count(Kind::step_aside), 0u);
  EXPECT_EQ(thread.received, 100);
}

// ---- Nobody polls

TEST_F(ProgressSim, PacketsThatComeSoonAreSpunForIfACoreIsSpare) {
  thread.core_is_spare = true;
  for (int i = 0; i < 100; ++i) packet_at(start + i * 30us);
  thread.run_until(start + 100 * 30us - 1us);
  // The first one wakes it, the second one comes soon.
  EXPECT_EQ(thread.count(Kind::sleep, start + 40us), 0u);
  EXPECT_GT(thread.count(Kind::look), 1000u);
  EXPECT_EQ(thread.received, 100);
}

TEST_F(ProgressSim, PacketsThatComeSoonWakeItIfNoCoreIsSpare) {
  thread.core_is_spare = false;
  for (int i = 0; i < 100; ++i) packet_at(start + i * 30us);
  thread.run_until(start + 100 * 30us - 1us);
  EXPECT_EQ(thread.count(Kind::look), 0u);
  EXPECT_EQ(thread.count(Kind::sleep, start), 100u);
  EXPECT_EQ(thread.received, 100);
}

TEST_F(ProgressSim, SparsePacketsAreNotSpunFor) {
  thread.core_is_spare = true;
  for (int i = 0; i < 100; ++i) packet_at(start + i * 70us);
  thread.run_until(start + 100 * 70us - 1us);
  EXPECT_EQ(thread.count(Kind::look), 0u);
  EXPECT_EQ(thread.received, 100);
}

TEST_F(ProgressSim, SpinningEndsFiftyMicrosecondsAfterTheLastPacket) {
  thread.core_is_spare = true;
  for (int i = 0; i < 10; ++i) packet_at(start + i * 30us);
  thread.run_until(start + 1s);
  const Instant last = start + 9 * 30us;
  EXPECT_EQ(thread.steps.back().step.kind, Kind::sleep);
  EXPECT_GE(thread.steps.back().begin, last + 50us);
  EXPECT_LE(thread.steps.back().begin, last + 60us);
}

// ---- Other reasons to work

TEST_F(ProgressSim, ControlIsServedWhileAside) {
  ping_pong(start + 5ms);
  thread.at(start + 3ms, [this] { thread.control = true; });
  thread.run_until(start + 4ms);
  EXPECT_EQ(thread.count(Kind::work, start + 3ms), 1u);
  EXPECT_LE(thread.first(Kind::work, start + 3ms), start + 3ms + 10us);
  EXPECT_FALSE(thread.control);
  EXPECT_EQ(thread.count(Kind::come_back), 0u);
  EXPECT_TRUE(thread.will_look());
}

TEST_F(ProgressSim, WakesAtTheDeadlineAndNotBefore) {
  thread.at(start, [this] {
    thread.deadline = start + 7ms;
    thread.woken = true;
  });
  thread.run_until(start + 1s);
  EXPECT_EQ(thread.count(Kind::work, start), 2u);
  const Instant second = thread.first(Kind::work, start + 1ms);
  EXPECT_GE(second, start + 7ms);
  EXPECT_LE(second, start + 7ms + 10us);
}

TEST_F(ProgressSim, WakesAtADeadlineThatEndsItsSpinning) {
  thread.core_is_spare = true;
  for (int i = 0; i < 10; ++i) packet_at(start + i * 30us);
  const Instant due = start + 9 * 30us + 20us;
  thread.deadline = due;
  thread.run_until(start + 1s);
  EXPECT_LE(thread.first(Kind::work, due), due + 10us);
}

TEST_F(ProgressSim, DeadlinesAreThePollersBusinessWhileItIsAside) {
  ping_pong(start + 5ms);
  thread.at(start + 2ms, [this] { thread.deadline = start + 3ms; });
  thread.run_until(start + 5ms);
  EXPECT_EQ(thread.count(Kind::work, start + 2ms), 0u);
  thread.run_until(start + 7ms);
  EXPECT_GE(thread.count(Kind::work, start + 5ms), 1u);
}

}  // namespace
}  // namespace verbena::host
