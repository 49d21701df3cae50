// Our own timer, sooner than the transport timer of the verbs: it repairs a loss that no NAK tells
// of. It must not flood a peer that is silent, nor one that is merely far away.

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "engine/transport_timer.h"
#include "tests/sim/reads.h"
#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::CompletionStatus;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;

constexpr Duration kTimeout = engine::transport_timeout(14);
constexpr int kRetries = 7;

struct Pair {
  explicit Pair(const Link& link)
      : world{7, link}, c{world, {.timeout = 14, .retry_count = kRetries}} {
    near = c.a.node->expose(c.a.pd, memory, Access::kLocalWrite);
    far = c.b.node->expose(c.b.pd, memory, Access::kLocalWrite | Access::kRemoteWrite);
  }

  CompletionStatus write() {
    const std::array sges{Sge{near.iova, 64, near.key}};
    EXPECT_EQ(c.a.send({.kind = SendKind::write,
                        .signaled = true,
                        .remote_address = far.iova,
                        .rkey = far.key,
                        .sges = sges}),
              PostResult::posted);
    CompletionStatus status{};
    EXPECT_TRUE(world.run_until(
        [&] {
          const auto done = c.a.poll();
          if (!done.empty()) status = done[0].status;
          return !done.empty();
        },
        60s));
    return status;
  }

  [[nodiscard]] std::uint64_t early_retries() {
    return c.a.node->rnic().counters().early_retransmits;
  }

  World world;
  Connection c;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(64);
  engine::MemoryRegion near;
  engine::MemoryRegion far;
};

TEST(EarlyRetry, SilentPeerGetsAHandfulAndNoMoreTime) {
  for (const bool met_before : {false, true}) {
    Pair p{{}};
    if (met_before) {
      EXPECT_EQ(p.write(), CompletionStatus::success);
    }
    p.c.b.node->dead = true;
    const Instant start = p.world.now();
    EXPECT_EQ(p.write(), CompletionStatus::retry_exceeded);
    EXPECT_EQ(p.world.now() - start, (kRetries + 1) * kTimeout);
    EXPECT_GE(p.early_retries(), 3u);
    EXPECT_LE(p.early_retries(), 8u);
  }
}

/// The answers that follow a lost one fill a slow link for a while, longer than our timer waits. It
/// may try again, and they may tell of the hole again, yet only once is it a retry that counts.
TEST(EarlyRetry, AnswersBehindAHoleUseUpOneRetry) {
  Reads reads{7, {}, {.retry_count = 1, .rd_atomic = 64, .depth = 64}, 16'384};
  reads.run();  // fast: the timer becomes short, the window wide
  reads.world.set_link({.bytes_per_second = 10'000'000});
  bool dropped = false;
  reads.world.filter = [&](const packet::Flow& flow, std::span<std::uint8_t> frame) {
    const bool answer = flow.source == reads.c.b.node->address() && frame.size() > 1024;
    return !answer || std::exchange(dropped, true);
  };
  reads.run();
  EXPECT_TRUE(dropped);
  EXPECT_GT(reads.c.a.node->rnic().counters().early_retransmits, 0u) << "else it shows nothing";
}

/// A peer on a busy machine: it answers at once for a while, and then loses its core for a turn of
/// the scheduler, again and again.
void run_beside_others(World& world, Node& peer, int turns) {
  const auto pass = [&](Duration time) { (void)world.run_until([] { return false; }, time); };
  for (int i = 0; i < turns; ++i) {
    peer.stopped = true;
    pass(5ms);
    peer.stopped = false;
    pass(5ms);
  }
}

TEST(EarlyRetry, APeerThatLosesItsCoreAgainAndAgainIsLearned) {
  Reads reads{7, {.bytes_per_second = 100'000'000}, {.timeout = 18, .depth = 64}, 65'536};
  reads.run();  // quickly: the timer becomes short
  reads.post();
  run_beside_others(reads.world, *reads.c.b.node, 6);
  const std::uint64_t learning = reads.c.a.node->rnic().counters().early_retransmits;
  EXPECT_GT(learning, 0u) << "else it shows nothing";
  for (int i = 0; i < 4; ++i) {
    reads.wait();
    reads.post();
    run_beside_others(reads.world, *reads.c.b.node, 6);
  }
  reads.wait();
  EXPECT_LE(reads.c.a.node->rnic().counters().early_retransmits, learning + 2);
}

/// The repetition is not answered within a round trip, either: nothing was lost, the peer was away.
TEST(EarlyRetry, AWindowOfReadsIsAsBeforeAfterALateAnswer) {
  Reads reads{7, {}, {.timeout = 18, .depth = 64}, 65'536};
  reads.run();
  const auto& window = reads.c.a.qp->completer.window;
  const std::uint32_t before = window.limit();
  reads.post();
  run_beside_others(reads.world, *reads.c.b.node, 1);
  EXPECT_GT(reads.c.a.node->rnic().counters().early_retransmits, 0u) << "else it shows nothing";
  EXPECT_GE(window.limit(), before);
}

/// What was lost doesn't come twice.
TEST(EarlyRetry, AWindowOfReadsIsSmallerAfterALoss) {
  Reads reads{7, {}, {.timeout = 18, .depth = 64}, 65'536};
  reads.run();
  const auto& window = reads.c.a.qp->completer.window;
  const std::uint32_t before = window.limit();
  const std::uint64_t early = reads.c.a.node->rnic().counters().early_retransmits;
  reads.world.filter = [&](const packet::Flow& flow, std::span<std::uint8_t>) {
    return flow.source == reads.c.a.node->address();
  };
  reads.post();
  (void)reads.world.run_until(
      [&] { return reads.c.a.node->rnic().counters().early_retransmits > early; }, 1s);
  reads.world.filter = {};
  (void)reads.world.run_until([&] { return !reads.c.a.poll().empty(); }, 1s);
  EXPECT_LT(window.limit(), before / 2);
}

TEST(EarlyRetry, LongPathIsLearned) {
  Pair p{{.delay = 10ms}};
  for (int i = 0; i < 50; ++i) EXPECT_EQ(p.write(), CompletionStatus::success);
  EXPECT_LE(p.early_retries(), 3u);
}

}  // namespace
}  // namespace verbena::sim
