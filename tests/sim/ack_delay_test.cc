// Two programs that answer each other: the acknowledgement leaves with the answer, if it comes
// soon.

#include "engine/ack_delay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::AckDelay;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;
using packet::Opcode;

/// A program at one end that writes into the other's memory and watches its own.
struct Speaker {
  explicit Speaker(End& at) : end{at} {
    region = end.node->expose(end.pd, memory,
                              Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead);
  }
  void post(SendKind kind, const Speaker& to, std::uint32_t offset = 0) {
    const std::array sges{Sge{region.iova + offset, 8, region.key}};
    ASSERT_EQ(end.send({.kind = kind,
                        .signaled = true,
                        .remote_address = to.region.iova + 8,
                        .rkey = to.region.key,
                        .sges = sges}),
              PostResult::posted);
  }
  void write(std::uint8_t value, const Speaker& to) {
    memory[0] = value;
    post(SendKind::write, to);
  }
  [[nodiscard]] bool sees(std::uint8_t value) const { return memory[8] == value; }

  End& end;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(16);
  engine::MemoryRegion region;
};

struct AckDelaySim : testing::Test {
  struct Frame {
    Opcode opcode;
    Instant at;
  };

  AckDelaySim() {
    world.filter = [this](const packet::Flow& flow, std::span<std::uint8_t> frame) {
      if (flow.source == c.b.node->address()) {
        said_by_b.push_back({static_cast<Opcode>(frame[0]), world.now()});
      }
      return true;
    };
  }

  /// A writes, B sees it.
  void ask(std::uint8_t value) {
    said_by_b.clear();
    a.write(value, b);
    ASSERT_TRUE(world.run_until([&] { return b.sees(value); }, 1ms));
  }
  void answer(std::uint8_t value) {
    b.write(value, a);
    ASSERT_TRUE(world.run_until([&] { return a.sees(value); }, 1ms));
    static_cast<void>(c.a.poll());
    static_cast<void>(c.b.poll());
  }
  void make_a_habit() {
    for (std::uint8_t i = 1; i <= AckDelay::kHabit; ++i) {
      ask(i);
      answer(i);
    }
  }
  /// When B's acknowledgement leaves, alone.
  Instant acknowledged() {
    EXPECT_TRUE(world.run_until([&] { return !said_by_b.empty(); }, 1ms));
    EXPECT_EQ(said_by_b.size(), 1u);
    EXPECT_EQ(said_by_b.back().opcode, Opcode::rc_acknowledge);
    return said_by_b.back().at;
  }

  World world{7, {}};
  Connection c{world, {}};
  Speaker a{c.a};
  Speaker b{c.b};
  std::vector<Frame> said_by_b;
};

TEST_F(AckDelaySim, TheAcknowledgementLeavesWithTheAnswer) {
  ask(200);
  EXPECT_EQ(acknowledged(), world.now()) << "nobody knows yet that an answer will come";
  answer(200);
  make_a_habit();
  ask(100);
  EXPECT_TRUE(said_by_b.empty());
  answer(100);
  ASSERT_EQ(said_by_b.size(), 2u);
  EXPECT_EQ(said_by_b[0].opcode, Opcode::rc_write_only);
  EXPECT_EQ(said_by_b[1].opcode, Opcode::rc_acknowledge);
  EXPECT_EQ(said_by_b[0].at, said_by_b[1].at);
}

TEST_F(AckDelaySim, WithoutAnAnswerItWaitsNoLongerThanItMay) {
  make_a_habit();
  ask(100);
  const Instant heard = world.now();
  EXPECT_EQ(acknowledged() - heard, AckDelay::kLongest);
  ask(101);
  EXPECT_EQ(acknowledged(), world.now()) << "it isn't a conversation any more";
}

TEST_F(AckDelaySim, AStreamIsAcknowledgedAtOnce) {
  make_a_habit();
  said_by_b.clear();
  a.write(100, b);
  a.write(100, b);
  ASSERT_TRUE(world.run_until([&] { return b.sees(100); }, 1ms));
  EXPECT_EQ(acknowledged(), world.now());
}

TEST_F(AckDelaySim, AReadIsServedAtOnce) {
  make_a_habit();
  ask(100);
  const Instant heard = world.now();
  a.post(SendKind::read, b);
  ASSERT_TRUE(world.run_until([&] { return !said_by_b.empty(); }, 1ms));
  EXPECT_EQ(said_by_b[0].opcode, Opcode::rc_read_response_only);
  EXPECT_LT(said_by_b[0].at - heard, AckDelay::kLongest);
}

TEST_F(AckDelaySim, AProgramThatEndsDoesNotWait) {
  make_a_habit();
  ask(100);
  c.b.node->rnic().send_delayed_acks();
  EXPECT_EQ(acknowledged(), world.now());
}

/// Each end posts when its own request completes, which it does when the other acknowledges.
TEST_F(AckDelaySim, TwoThatAwaitAcknowledgementsDoNotWaitForEachOther) {
  a.post(SendKind::write, b);
  b.post(SendKind::write, a);
  Duration longest{};
  for (int i = 0; i < 40; ++i) {
    const Instant start = world.now();
    std::size_t done_a = 0;
    std::size_t done_b = 0;
    ASSERT_TRUE(world.run_until(
        [&] {
          done_a += c.a.poll().size();
          done_b += c.b.poll().size();
          return done_a + done_b > 0;
        },
        1ms));
    longest = std::max(longest, world.now() - start);
    if (done_a > 0) a.post(SendKind::write, b);
    if (done_b > 0) b.post(SendKind::write, a);
  }
  EXPECT_LT(longest, AckDelay::kLongest);
}

/// B's answer is no good, and B ends its queue pair: what A wrote has arrived all the same.
TEST_F(AckDelaySim, ABadAnswerTakesNoAcknowledgementAlong) {
  make_a_habit();
  ask(100);
  b.post(SendKind::write, a, 4096);
  ASSERT_TRUE(world.run_until([&] { return !c.b.poll().empty(); }, 1ms));
  c.b.node->destroy(*c.b.qp);
  std::vector<engine::Completion> done;
  ASSERT_TRUE(world.run_until(
      [&] {
        done = c.a.poll();
        return !done.empty();
      },
      60s));
  EXPECT_EQ(done[0].status, engine::CompletionStatus::success);
}

/// The acknowledgement of a message that B heard of waits; of the next B never hears.
TEST_F(AckDelaySim, AWaitingAcknowledgementIsNotOfAMessageWhoseCompletionIsLost) {
  World small{7, {}};
  Connection pair{small, {.cq_b = 1}};
  Speaker from{pair.a};
  Speaker to{pair.b};
  const auto pass = [&](Duration d) {
    static_cast<void>(small.run_until([] { return false; }, d));
  };
  for (std::uint8_t i = 1; i <= AckDelay::kHabit; ++i) {
    from.write(i, to);
    ASSERT_TRUE(small.run_until([&] { return to.sees(i); }, 1ms));
    to.write(i, from);
    ASSERT_TRUE(small.run_until([&] { return from.sees(i); }, 1ms));
    pass(20us);
    ASSERT_EQ(pair.b.poll().size(), 1u);
  }
  pass(200us);
  static_cast<void>(pair.a.poll());
  const std::array room{Sge{to.region.iova, 8, to.region.key}};
  for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.b.receive({.sges = room}), PostResult::posted);
  from.post(SendKind::send, to);
  pass(20us);
  from.post(SendKind::send, to);
  std::vector<engine::Completion> done;
  ASSERT_TRUE(small.run_until(
      [&] {
        for (const auto& completion : pair.a.poll()) done.push_back(completion);
        return done.size() == 2;
      },
      60s));
  EXPECT_EQ(done[0].status, engine::CompletionStatus::success);
  EXPECT_NE(done[1].status, engine::CompletionStatus::success);
}

TEST_F(AckDelaySim, AProgramThatIsWokenIsNotWaitedFor) {
  const auto exchange = [&] {
    const std::array room{Sge{b.region.iova, 8, b.region.key}};
    ASSERT_EQ(c.b.receive({.sges = room}), PostResult::posted);
    c.b.cq->arm(false);
    said_by_b.clear();
    a.post(SendKind::send, b);
    ASSERT_TRUE(world.run_until([&] { return !c.b.poll().empty(); }, 1ms));
    EXPECT_EQ(acknowledged(), world.now());
    answer(1);
    a.memory[8] = 0;
  };
  for (unsigned i = 0; i < 2 * AckDelay::kHabit; ++i) exchange();
}

}  // namespace
}  // namespace verbena::sim
