// The simulated network itself: each way of going wrong happens, is counted, and follows from the
// seed; and reliable traffic gets through all of them.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <numeric>
#include <tuple>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::CompletionStatus;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;

/// A writes the same piece of memory to B again and again.
struct Transfer {
  Transfer(std::uint64_t seed, const Link& link, const ConnectOptions& options = {.mtu = 4096})
      : world{seed, link}, c{world, options}, source(1u << 16), target(1u << 16) {
    std::iota(source.begin(), source.end(), std::uint8_t{1});
    const unsigned all = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
    from = c.a.node->expose(c.a.pd, source, all);
    to = c.b.node->expose(c.b.pd, target, all);
  }

  [[nodiscard]] PostResult post(SendKind kind, std::uint32_t length) {
    const std::array sges{Sge{from.iova, length, from.key}};
    return c.a.send(
        {.kind = kind, .signaled = true, .remote_address = to.iova, .rkey = to.key, .sges = sges});
  }

  /// Writes `messages` times 64 KiB; how long that took.
  Duration write(std::uint32_t messages) {
    const Instant start = world.now();
    std::uint32_t posted = 0;
    std::uint32_t done = 0;
    EXPECT_TRUE(world.run_until(
        [&] {
          for (const auto& completion : c.a.poll()) {
            EXPECT_EQ(completion.status, CompletionStatus::success);
            ++done;
          }
          while (posted < messages && posted - done < 8 &&
                 post(SendKind::write, 1u << 16) == PostResult::posted)
            ++posted;
          return done == messages || testing::Test::HasFailure();
        },
        60s));
    EXPECT_EQ(target, source);
    return world.now() - start;
  }

  World world;
  Connection c;
  std::vector<std::uint8_t> source;
  std::vector<std::uint8_t> target;
  engine::MemoryRegion from;
  engine::MemoryRegion to;
};

TEST(Network, CorruptedFramesAreDroppedAndCounted) {
  Transfer t{1, {.corrupt_ppm = 20'000}};
  t.write(100);
  EXPECT_GT(t.world.corrupted(), 0u);
  EXPECT_EQ(t.world.corrupted(), t.world.lost());
}

TEST(Network, CorruptedFramesThatPassTheChecksumBreakNothingElse) {
  // 2^-16 of them do on IPv4. The data may be wrong then, and the queue pair may end in error; but
  // nothing is touched that was not exposed, and something completes every request.
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Transfer t{seed, {.corrupt_ppm = 50'000, .deliver_corrupted = true}, {.timeout = 8}};
    std::size_t completed = 0;
    for (int i = 0; i < 20; ++i) {
      const auto kind = i % 3 == 0 ? SendKind::read : SendKind::write;
      ASSERT_EQ(t.post(kind, 5000), PostResult::posted);
    }
    ASSERT_TRUE(t.world.run_until(
        [&] {
          completed += t.c.a.poll().size();
          return completed == 20;
        },
        60s))
        << "seed " << seed << ": " << completed << " of 20";
  }
}

TEST(Network, ReorderedFramesArriveLater) {
  Transfer t{1, {.reorder_ppm = 20'000, .reorder_by = 30us}};
  t.write(50);
  EXPECT_GT(t.c.b.node->rnic().counters().out_of_seq_request, 0u);
  EXPECT_EQ(t.world.lost(), 0u);
}

TEST(Network, PortIsAsFastAsItSays) {
  Transfer t{1, {.bytes_per_second = 100'000'000, .queue_bytes = 1u << 24}};
  const double seconds = std::chrono::duration<double>{t.write(160)}.count();
  const double rate = 160.0 * 65'536 / seconds;
  EXPECT_LT(rate, 100e6);
  EXPECT_GT(rate, 90e6);
  EXPECT_EQ(t.world.queue_drops(), 0u);
}

TEST(Network, QueueThatIsFullDrops) {
  Transfer t{1, {.bytes_per_second = 1'000'000'000, .queue_bytes = 65'536}};
  const double seconds = std::chrono::duration<double>{t.write(1000)}.count();
  EXPECT_GT(t.world.queue_drops(), 0u);
  EXPECT_GT(1000.0 * 65'536 / seconds, 700e6);
}

TEST(Network, LongQueueMarksThoseWhoSayTheyUnderstand) {
  const Link link{
      .bytes_per_second = 1'000'000'000, .queue_bytes = 1u << 24, .mark_above_bytes = 65'536};
  Transfer deaf{1, link};
  deaf.write(50);
  EXPECT_EQ(deaf.world.marked(), 0u);
  Transfer able{1, link, {.mtu = 4096, .traffic_class = 2}};
  able.write(50);
  EXPECT_GT(able.world.marked(), 0u);
}

/// Datagrams of this size that the default buffer of a process which never looks holds.
std::uint64_t held(std::uint32_t datagram) {
  constexpr std::uint32_t kHeaders = 12 + 4;  // BTH, ICRC
  Transfer t{
      1,
      {},
      {.mtu = 4096, .depth = 512, .type_a = engine::QpType::uc, .type_b = engine::QpType::uc}};
  t.c.b.node->buffer = {.bytes = ReceiveBuffer::kDefault, .nap = std::chrono::hours{1}};
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(t.post(SendKind::send, datagram - kHeaders), PostResult::posted);
  }
  // The sender asks whether it may go on, in vain, and then goes on.
  t.world.filter = [](auto&, std::span<std::uint8_t> frame) {
    return frame[0] != static_cast<std::uint8_t>(packet::Opcode::mark);
  };
  EXPECT_FALSE(t.world.run_until([] { return false; }, 1s));
  return 400 - t.c.b.node->overflows();
}

TEST(Network, ReceiveBufferHoldsWhatLinuxHolds) {
  EXPECT_EQ(held(64), 256u);
  EXPECT_EQ(held(512), 166u);
  EXPECT_EQ(held(1024), 92u);
  EXPECT_EQ(held(2048), 48u);
  EXPECT_EQ(held(4096), 25u);
}

TEST(Network, SlowProcessIsKeptBusy) {
  Transfer t{1, {}};
  t.c.b.node->buffer = {.bytes = ReceiveBuffer::kDefault, .service = 2us};
  const double seconds = std::chrono::duration<double>{t.write(1000)}.count();
  const double busy = 1000.0 * 16 * 2e-6 / seconds;
  EXPECT_GT(busy, 0.8);
  EXPECT_LE(busy, 1.01);
}

TEST(Network, SameSeedSameWorld) {
  const Link link{.jitter = 10us,
                  .loss_ppm = 10'000,
                  .duplicate_ppm = 10'000,
                  .reorder_ppm = 10'000,
                  .corrupt_ppm = 10'000};
  const auto run = [&](std::uint64_t seed) {
    Transfer t{seed, link};
    t.c.b.node->buffer = {.bytes = ReceiveBuffer::kDefault, .service = 1us, .nap = 20us};
    const Duration took = t.write(100);
    return std::tuple{took, t.world.lost(), t.world.delivered(), t.c.b.node->overflows()};
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

TEST(Network, CleanPathIsFilledWithinAFewRoundTrips) {
  // 64 MiB in packets of 4 KiB; a round trip is 10 µs and the window at most 124 packets.
  Transfer t{1, {.delay = 5us}};
  const auto rounds = static_cast<double>(t.write(1024) / 10us);
  std::printf("64 MiB in %.0f round trips\n", rounds);
  EXPECT_LT(rounds, 1.1 * 16'384 / 124 + 7);
}

}  // namespace
}  // namespace verbena::sim
