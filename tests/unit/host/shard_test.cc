// Shards on a wire in memory: the host without sockets.

#include "host/shard.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/shard_node.h"

namespace verbena::host {
namespace {

using test::MemoryNetwork;
using Node = test::ShardNode;

class ShardTest : public testing::Test {
 protected:
  /// A queue pair of each, connected.
  static std::pair<QueuePair*, QueuePair*> pair_of(Node& a, Node& b) {
    QueuePair& from = a.create_qp();
    QueuePair& to = b.create_qp();
    a.connect(from, b, to);
    b.connect(to, a, from);
    return {&from, &to};
  }

  MemoryNetwork network_;
};

TEST_F(ShardTest, AWriteCrossesTheWireInMemory) {
  Node a{network_, 1};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  constexpr std::string_view kText = "no socket has seen this";
  std::ranges::copy(kText, a.memory.begin());
  a.write(*qp, b, 5000, 7);
  for (int i = 0; i < 10; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{7}));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(b.memory.data()), kText.size()), kText);
  EXPECT_EQ(a.wire->counters().frames_sent, 5u);
}

TEST_F(ShardTest, AFullPathDoesNotStopTheOthers) {
  Node a{network_, 1};
  Node slow{network_, 2};
  Node quick{network_, 3};
  const auto [to_slow, slow_peer] = pair_of(a, slow);
  const auto [to_quick, quick_peer] = pair_of(a, quick);
  a.wire->limit(slow.address, 1);
  a.write(*to_slow, slow, 8192, 1);
  a.write(*to_quick, quick, 8192, 2);
  for (int i = 0; i < 10; ++i) {
    a.turn();
    quick.turn();  // `slow` takes nothing
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{2}));
  EXPECT_GT(a.wire->refusals(), 0u);

  for (int i = 0; i < 50; ++i) {
    a.turn();
    slow.turn();
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
}

TEST_F(ShardTest, FaultsStandAroundAnyWire) {
  Node a{network_, 1, settings::FaultSpec{.drop = 1}};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  a.write(*qp, b, 100, 1);
  for (int i = 0; i < 3; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_TRUE(a.completed().empty());
  EXPECT_EQ(a.wire->counters().frames_sent, 0u);
  a.shard->inspect([](ShardState& s) {
    const auto faults = s.wires->fault_counters();
    ASSERT_TRUE(faults);
    EXPECT_GE(faults->dropped, 1u);
  });
}

TEST_F(ShardTest, DamagedFramesDontReachTheEngine) {
  Node a{network_, 1, settings::FaultSpec{.corrupt = 1}};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  std::ranges::fill(a.memory, std::uint8_t{1});
  a.write(*qp, b, 100, 1);
  for (int i = 0; i < 3; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_GE(b.wire->counters().icrc_errors, 1u);
  EXPECT_EQ(b.memory[0], 0);
}

// A thread posts while another one has the lock, whatever for: the post isn't forgotten.

class PostWhileLocked : public ShardTest {
 protected:
  void SetUp() override { std::tie(qp, peer) = pair_of(a, b); }
  /// As a program's thread does it.
  void post() {
    a.write(*qp, b, 100, 1);
    std::thread{[this] { a.shard->send_inline(); }}.join();
  }
  void expect_sent() {
    b.turn();
    a.turn();
    EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
  }

  Node a{network_, 1};
  Node b{network_, 2};
  QueuePair* qp = nullptr;
  QueuePair* peer = nullptr;
};

TEST_F(PostWhileLocked, BeforeTheThreadSleeps) {
  a.wire->while_locked = [this] { post(); };
  EXPECT_FALSE(a.shard->may_sleep());
  a.turn();
  expect_sent();
}

TEST_F(PostWhileLocked, WhileTheThreadLooks) {
  a.wire->while_locked = [this] { post(); };
  EXPECT_TRUE(a.shard->arrived());
  a.turn();
  expect_sent();
}

TEST_F(PostWhileLocked, DuringAnInspection) {
  a.shard->inspect([this](ShardState&) { post(); });
  expect_sent();
}

TEST_F(PostWhileLocked, DuringACall) {
  a.shard->locked([this](ShardState&) { post(); });
  expect_sent();
}

}  // namespace
}  // namespace verbena::host
