// Two programs that answer each other: the acknowledgement leaves with the answer, if it comes
// soon.

#include "engine/conversation.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Conversation;
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
  void post(SendKind kind, const Speaker& to) {
    const std::array sges{Sge{region.iova, 8, region.key}};
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

struct ConversationSim : testing::Test {
  struct Frame {
    Opcode opcode;
    Instant at;
  };

  ConversationSim() {
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
    for (std::uint8_t i = 1; i <= Conversation::kHabit; ++i) {
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

TEST_F(ConversationSim, TheAcknowledgementLeavesWithTheAnswer) {
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

TEST_F(ConversationSim, WithoutAnAnswerItWaitsNoLongerThanItsPatience) {
  make_a_habit();
  ask(100);
  const Instant heard = world.now();
  EXPECT_EQ(acknowledged() - heard, Conversation::kPatience);
  ask(101);
  EXPECT_EQ(acknowledged(), world.now()) << "it isn't a conversation any more";
}

TEST_F(ConversationSim, AStreamIsAcknowledgedAtOnce) {
  make_a_habit();
  said_by_b.clear();
  a.write(100, b);
  a.write(100, b);
  ASSERT_TRUE(world.run_until([&] { return b.sees(100); }, 1ms));
  EXPECT_EQ(acknowledged(), world.now());
}

TEST_F(ConversationSim, AReadIsServedAtOnce) {
  make_a_habit();
  ask(100);
  const Instant heard = world.now();
  a.post(SendKind::read, b);
  ASSERT_TRUE(world.run_until([&] { return !said_by_b.empty(); }, 1ms));
  EXPECT_EQ(said_by_b[0].opcode, Opcode::rc_read_response_only);
  EXPECT_LT(said_by_b[0].at - heard, Conversation::kPatience);
}

TEST_F(ConversationSim, AProgramThatEndsDoesNotWait) {
  make_a_habit();
  ask(100);
  c.b.node->rnic().hurry_answers();
  EXPECT_EQ(acknowledged(), world.now());
}

TEST_F(ConversationSim, AProgramThatIsWokenIsNotWaitedFor) {
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
  for (unsigned i = 0; i < 2 * Conversation::kHabit; ++i) exchange();
}

}  // namespace
}  // namespace verbena::sim
