// Polling, waiting, events.
#include <poll.h>

#include <array>
#include <atomic>

#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

class CompletionQueues : public Quiet {};

TEST_F(CompletionQueues, AWaitEndsAtItsDeadline) {
  Pair p;
  const auto before = Deadline::Clock::now();
  EXPECT_FALSE(p.cq.wait(30ms));
  EXPECT_GE(Deadline::Clock::now() - before, 30ms);
  EXPECT_FALSE(p.cq.poll());
}

TEST_F(CompletionQueues, BatchesArePolledInPlace) {
  Pair p;
  for (std::uint64_t i = 0; i < 20; ++i) {
    p.a.post(Write{p.near.slice(0, 8), p.far.remote()}.signaled().id(i)).check();
  }
  std::array<Completion, 8> room;
  std::uint64_t next = 0;
  while (next < 20) {
    const auto batch = p.cq.wait(std::span{room}, 5s);
    ASSERT_FALSE(batch.empty());
    for (const Completion& done : batch) EXPECT_EQ(done.id(), next++);
  }
}

QueuePair* fails_when_armed = nullptr;

/// A device on which something completes just before the channel is armed, so that no event comes.
int completes_instead_of_arming(ibv_cq*, int) {
  fails_when_armed->to_error();
  return 0;
}

// The race that everybody hits: a completion between the last empty poll and arming the channel
// makes no event.
TEST_F(CompletionQueues, WhatCompletesBeforeArmingIsPolledAfterIt) {
  Pair p;
  p.b.post(Recv{}.id(7)).check();
  fails_when_armed = &p.b;
  auto& arm = p.context.raw()->ops.req_notify_cq;
  auto* const real = std::exchange(arm, completes_instead_of_arming);
  const auto before = Deadline::Clock::now();
  const auto done = p.cq.wait(10s);
  arm = real;
  ASSERT_TRUE(done);
  EXPECT_EQ(done->id(), 7u);
  EXPECT_LT(Deadline::Clock::now() - before, 5s) << "it slept until the deadline";
}

TEST_F(CompletionQueues, NothingIsLostBetweenPollingAndArming) {
  Pair p;
  constexpr std::uint64_t kRounds = 2000, kWindow = 32;  // never more than the queue can hold
  std::atomic<std::uint64_t> seen = 0;
  std::jthread poster{[&](const std::stop_token& failed) {
    for (std::uint64_t i = 0; i < kRounds && !failed.stop_requested(); ++i) {
      while (i - seen >= kWindow && !failed.stop_requested()) std::this_thread::yield();
      p.a.post(Write{p.near.slice(0, 8), p.far.remote()}.signaled().id(i)).check();
      if (i % 7 == 0) std::this_thread::yield();
    }
  }};
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const auto done = p.cq.wait(5s);
    ASSERT_TRUE(done) << "lost at " << i;
    ASSERT_EQ(done->id(), i);
    ++seen;
  }
}

TEST_F(CompletionQueues, TheDescriptorIsForOnesOwnLoop) {
  Pair p;
  p.cq.arm();
  EXPECT_FALSE(p.cq.poll());
  p.a.post(Write{p.near.slice(0, 8), p.far.remote()}.signaled()).check();
  pollfd waiting{.fd = p.cq.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&waiting, 1, 5000), 1);
  EXPECT_TRUE(p.cq.take_event());
  EXPECT_FALSE(p.cq.take_event());
  EXPECT_TRUE(p.cq.poll());
}

TEST_F(CompletionQueues, ArmedForSolicitedOnlyItSleepsThroughTheRest) {
  Pair p;
  CompletionQueue receives{p.context, 64};
  QueuePair a = QueuePair::rc(p.pd).cq(p.cq).create();
  QueuePair b = QueuePair::rc(p.pd).send_cq(p.cq).recv_cq(receives).create();
  const ConnInfo one = a.info(), other = b.info();
  a.connect(other);
  b.connect(one);
  for (std::uint64_t i = 0; i < 2; ++i) b.post(Recv{}.id(i)).check();
  receives.arm(/*solicited_only=*/true);
  a.post(Send{}.imm(1).signaled().id(8)).check();
  ASSERT_TRUE(p.next_of(8).ok());
  EXPECT_FALSE(receives.take_event()) << "an unsolicited message made an event";
  a.post(Send{}.imm(2).solicited().signaled().id(9)).check();
  ASSERT_TRUE(p.next_of(9).ok());
  pollfd waiting{.fd = receives.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&waiting, 1, 5000), 1);
  EXPECT_TRUE(receives.take_event());
}

TEST_F(CompletionQueues, SpinningFindsItToo) {
  Pair p;
  p.a.post(Write{p.near.slice(0, 8), p.far.remote()}.signaled().id(3)).check();
  const auto done = p.cq.spin(5s);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->id(), 3u);
  EXPECT_FALSE(p.cq.spin(5ms));
}

TEST_F(CompletionQueues, CanGrow) {
  Pair p;
  p.cq.resize(1000);
  EXPECT_GE(p.cq.depth(), 1000);
}

}  // namespace
}  // namespace rdma::test
