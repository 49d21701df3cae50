// Single cases of queue pairs between processes of one host: who waits for room, who is given up,
// and which timers run.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/transport_timer.h"
#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionStatus;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;

constexpr std::uint32_t kSize = 32'768;

/// Two nodes of one host and a number of connections from A to B, with memory at both.
struct Pair {
  explicit Pair(std::size_t connections, std::size_t capacity = 64 * 200) {
    world.use_rings({.capacity = capacity, .wake = 2us});
    Node& a = world.add_node();
    Node& b = world.add_node();
    for (std::size_t i = 0; i < connections; ++i) {
      auto& c = *all.emplace_back(std::make_unique<Connection>(options, a, b));
      from.push_back(a.expose(c.a.pd, source, Access::kLocalWrite));
      to.push_back(b.expose(c.b.pd, target, Access::kLocalWrite | Access::kRemoteWrite));
    }
  }
  void write(std::size_t i, std::uint32_t bytes = kSize) {
    const std::array sges{Sge{from[i].iova, bytes, from[i].key}};
    ASSERT_EQ(all[i]->a.send({.kind = SendKind::write,
                              .signaled = true,
                              .remote_address = to[i].iova,
                              .rkey = to[i].key,
                              .sges = sges}),
              PostResult::posted);
  }
  /// Runs until each connection has a completion.
  bool run(Duration limit) {
    got.resize(all.size());
    return world.run_until(
        [&] {
          for (std::size_t i = 0; i < all.size(); ++i) {
            for (const Completion& c : all[i]->a.poll()) got[i].push_back(c);
          }
          return std::ranges::none_of(got, [](const auto& g) { return g.empty(); });
        },
        limit);
  }
  [[nodiscard]] Node& a() const { return *all[0]->a.node; }
  [[nodiscard]] Node& b() const { return *all[0]->b.node; }

  World world{1, {.delay = 5us}};
  ConnectOptions options{.mtu = 4096, .timeout = 12, .retry_count = 2};
  std::vector<std::uint8_t> source = std::vector<std::uint8_t>(kSize, 7);
  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(kSize);
  std::vector<engine::MemoryRegion> from, to;
  std::vector<std::unique_ptr<Connection>> all;
  std::vector<std::vector<Completion>> got;
};

TEST(Host, AStoppedPeerIsGivenUpAfterAllTries) {
  Pair p{1};
  p.b().stopped = true;
  p.write(0);
  const Instant begun = p.world.now();
  ASSERT_TRUE(p.run(60s));
  EXPECT_EQ(p.got[0][0].status, CompletionStatus::retry_exceeded);
  EXPECT_EQ(p.world.now() - begun, 3 * engine::transport_timeout(12));
}

/// Another one's frames fill the ring: not one of its own has left.
TEST(Host, WhoNeverGotRoomToAStoppedPeerIsGivenUpToo) {
  Pair p{3};
  p.b().stopped = true;
  for (std::size_t i = 0; i < 3; ++i) p.write(i);
  const Instant begun = p.world.now();
  ASSERT_TRUE(p.run(60s)) << "somebody waits for ever";
  for (const auto& g : p.got) EXPECT_EQ(g[0].status, CompletionStatus::retry_exceeded);
  EXPECT_LE(p.world.now() - begun, 4 * engine::transport_timeout(12));
}

/// A peer that takes what is there, however slowly, is alive: nobody who waits for room gives up.
TEST(Host, WhoWaitsForRoomAtASlowPeerIsNotGivenUp) {
  Pair p{40};
  for (std::size_t i = 0; i < 40; ++i) p.write(i);
  // It looks every 10 ms, less than the timer; a look moves three packets of 320.
  p.world.use_rings({.capacity = 64 * 200, .wake = 10ms});
  ASSERT_TRUE(p.run(600s));
  for (const auto& g : p.got) EXPECT_EQ(g[0].status, CompletionStatus::success);
  EXPECT_EQ(p.target, p.source);
}

/// Everything is in the ring, behind what others have sent. The peer has little of its core, and
/// gets to it after many times the timeout.
TEST(Host, WhoWaitsForAnAnswerOfASlowPeerDoesNotGiveItUp) {
  constexpr std::size_t kConnections = 200;
  Pair p{kConnections, 16u << 20};
  for (std::size_t i = 0; i < kConnections; ++i) p.write(i);
  const Instant begun = p.world.now();
  const auto pass = [&](Duration time) { (void)p.world.run_until([] { return false; }, time); };
  p.got.resize(kConnections);
  for (int slice = 0; slice < 100; ++slice) {
    p.b().stopped = true;
    pass(8ms);
    p.b().stopped = false;
    pass(1us);  // takes 128 packets of 1,600
  }
  EXPECT_EQ(p.world.held_back(), 0u) << "else it shows another thing";
  EXPECT_EQ(p.a().rnic().counters().completer_retry_err, 0u);
  ASSERT_TRUE(p.run(1s));
  EXPECT_GT(p.world.now() - begun, 4 * engine::transport_timeout(12)) << "else it shows nothing";
  for (const auto& g : p.got) EXPECT_EQ(g[0].status, CompletionStatus::success);
}

/// Its process is alive and takes what others send, but the queue pair is gone.
TEST(Host, APeerThatTakesAllAndDoesNotAnswerIsGivenUp) {
  Pair p{2, 1u << 20};
  p.b().destroy(*p.all[0]->b.qp);
  p.all[0]->b.qp = nullptr;
  p.write(0);
  const Instant begun = p.world.now();
  const auto given_up = [&] {
    p.write(1, 64);  // something moves all the time
    for (const Completion& c : p.all[1]->a.poll()) EXPECT_EQ(c.status, CompletionStatus::success);
    const auto done = p.all[0]->a.poll();
    for (const Completion& c : done) EXPECT_EQ(c.status, CompletionStatus::retry_exceeded);
    return !done.empty();
  };
  while (!given_up()) {
    ASSERT_LT(p.world.now() - begun, 10 * engine::transport_timeout(12));
    (void)p.world.run_until([] { return false; }, 1ms);
  }
  EXPECT_LE(p.world.now() - begun, 5 * engine::transport_timeout(12));
}

TEST(Host, AFullRingHoldsBackAndLosesNothing) {
  Pair p{8};
  for (int n = 0; n < 8; ++n) {
    for (std::size_t i = 0; i < 8; ++i) p.write(i);
  }
  ASSERT_TRUE(p.run(10s));
  EXPECT_GT(p.world.held_back(), 100u);
  EXPECT_EQ(p.a().rnic().counters().completer_retry_err, 0u);
  EXPECT_EQ(p.target, p.source);
}

/// A timer for early retries is the network's. What it was started for may leave by the ring.
TEST(Host, AnEarlyRetryOfTheNetworkIsNotRepeatedByTheRing) {
  Pair p{1, 1u << 20};
  bool host = false;
  p.world.same_host = [&](const Node&, const Node&) { return host; };
  p.world.filter = [&](const packet::Flow&, std::span<std::uint8_t>) {
    return std::exchange(host, true);  // the first one is lost, and then there is a ring
  };
  p.world.use_rings({.capacity = 1u << 20, .wake = 1us, .away = 20ms, .away_ppm = 1'000'000});
  p.write(0, 100);
  ASSERT_TRUE(p.run(1s));
  EXPECT_EQ(p.got[0][0].status, CompletionStatus::success);
  EXPECT_EQ(p.a().rnic().counters().early_retransmits, 1u) << "the reader was only late";
  EXPECT_EQ(p.world.through_rings(), 2u);
}

}  // namespace
}  // namespace verbena::sim
