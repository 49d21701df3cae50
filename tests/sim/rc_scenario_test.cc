// What goes wrong, one thing at a time: statuses, order of flushing, timers.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/sim/world.h"
#include "tests/support/datagram.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionStatus;
using engine::PostResult;
using engine::QpState;
using engine::SendKind;
using engine::Sge;

struct Scenario : testing::Test {
  explicit Scenario(ConnectOptions options = {}, Link link = {})
      : world{7, link}, c{world, options}, memory_a(1u << 20), memory_b(1u << 20) {
    std::iota(memory_a.begin(), memory_a.end(), std::uint8_t{1});
    const unsigned all = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
    region_a = c.a.node->expose(c.a.pd, memory_a, all);
    region_b = c.b.node->expose(c.b.pd, memory_b, all);
  }

  static Sge piece(const engine::MemoryRegion& r, std::uint32_t length, std::uint64_t offset = 0) {
    return {r.iova + offset, length, r.key};
  }

  engine::SendRequest request(SendKind kind, std::span<const Sge> sges, std::uint64_t id = 1) {
    return {.wr_id = id,
            .kind = kind,
            .signaled = true,
            .remote_address = region_b.iova,
            .rkey = region_b.key,
            .sges = sges};
  }

  void post(SendKind kind, std::uint32_t length, std::uint64_t id = 1) {
    const std::array sges{piece(region_a, length)};
    ASSERT_EQ(c.a.send(request(kind, sges, id)), PostResult::posted);
  }

  void post_receive(std::uint32_t length, std::uint64_t id) {
    const std::array sges{piece(region_b, length)};
    ASSERT_EQ(c.b.receive({.wr_id = id, .sges = sges}), PostResult::posted);
  }

  /// Runs until A has `n` completions.
  std::vector<Completion> completions_of_a(std::size_t n, Duration limit = 60s) {
    std::vector<Completion> got;
    EXPECT_TRUE(world.run_until(
        [&] {
          const auto more = c.a.poll();
          got.insert(got.end(), more.begin(), more.end());
          return got.size() >= n;
        },
        limit))
        << got.size() << " of " << n << " completions";
    return got;
  }

  World world;
  Connection c;
  std::vector<std::uint8_t> memory_a;
  std::vector<std::uint8_t> memory_b;
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;
};

TEST_F(Scenario, DeadPeerEndsInRetryExceededBetweenOneAndFourTimesTheTimeout) {
  c.b.node->dead = true;
  const Instant start = world.now();
  post(SendKind::write, 64, 1);
  post(SendKind::send, 64, 2);
  const auto got = completions_of_a(2);
  const Duration took = world.now() - start;
  const Duration configured = 7 * (4096ns * (1 << 14));
  EXPECT_GE(took, configured);
  EXPECT_LE(took, 4 * configured);
  EXPECT_EQ(got[0].status, CompletionStatus::retry_exceeded);
  EXPECT_EQ(got[1].status, CompletionStatus::flushed);
  EXPECT_EQ(c.a.qp->state.load(), QpState::error);
}

TEST_F(Scenario, BadRkeyIsRefusedAndFlushesTheRestInOrder) {
  auto bad = request(SendKind::write, {}, 1);
  const std::array sges{piece(region_a, 100)};
  bad.sges = sges;
  bad.rkey = Key{region_b.key.value() ^ 1};
  ASSERT_EQ(c.a.send(bad), PostResult::posted);
  for (std::uint64_t id = 2; id < 6; ++id) post(SendKind::write, 100, id);
  const auto got = completions_of_a(5);
  EXPECT_EQ(got[0].status, CompletionStatus::remote_access_error);
  for (std::size_t i = 1; i < 5; ++i) {
    EXPECT_EQ(got[i].status, CompletionStatus::flushed);
    EXPECT_EQ(got[i].wr_id, i + 1);
  }
  EXPECT_EQ(memory_b, std::vector<std::uint8_t>(memory_b.size()));
  EXPECT_EQ(c.b.qp->state.load(), QpState::error);
}

TEST_F(Scenario, WriteBeyondTheRegionMovesNoByte) {
  auto beyond = request(SendKind::write, {}, 1);
  const std::array sges{piece(region_a, 4096)};
  beyond.sges = sges;
  beyond.remote_address = region_b.iova + region_b.length - 4095;
  ASSERT_EQ(c.a.send(beyond), PostResult::posted);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
  EXPECT_EQ(memory_b, std::vector<std::uint8_t>(memory_b.size()));
}

TEST_F(Scenario, AddressThatWrapsIsRefused) {
  auto wrap = request(SendKind::write, {}, 1);
  const std::array sges{piece(region_a, 4096)};
  wrap.sges = sges;
  wrap.remote_address = ~std::uint64_t{0} - 100;
  ASSERT_EQ(c.a.send(wrap), PostResult::posted);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
}

TEST_F(Scenario, EmptyWriteNeedsNoKey) {
  auto empty = request(SendKind::write, {}, 1);
  empty.rkey = Key{0xdead};
  ASSERT_EQ(c.a.send(empty), PostResult::posted);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::success);
}

TEST_F(Scenario, RequestsBeforeALocalFaultStillComplete) {
  post(SendKind::write, 9000, 1);
  const std::array bad{Sge{region_a.iova, 10, Key{0x1234'5678}}};
  ASSERT_EQ(c.a.send(request(SendKind::write, bad, 2)), PostResult::posted);
  post(SendKind::write, 10, 3);
  const auto got = completions_of_a(3);
  EXPECT_EQ(got[0].status, CompletionStatus::success);
  EXPECT_EQ(got[1].status, CompletionStatus::local_protection_error);
  EXPECT_EQ(got[2].status, CompletionStatus::flushed);
}

TEST_F(Scenario, MemoryThatVanishedUnderASendIsALocalProtectionError) {
  c.a.node->unmap(memory_a);
  post(SendKind::write, 100);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::local_protection_error);
}

TEST_F(Scenario, MemoryThatVanishedUnderAWriteIsARemoteAccessError) {
  c.b.node->unmap(memory_b);
  post(SendKind::write, 100);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
}

TEST_F(Scenario, MemoryThatVanishedUnderAReadIsARemoteAccessError) {
  c.b.node->unmap(memory_b);
  post(SendKind::read, 10'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
}

/// The copies of packets that come together wait for one another, and their memory may be gone
/// by then.
class Trains : public Scenario, public testing::WithParamInterface<std::uint64_t> {
 protected:
  Trains() {
    world.come_together(GetParam());
    c.b.node->unmap(std::span{memory_b}.subspan(50'000, 1));
  }

  std::vector<std::uint8_t> tail = std::vector<std::uint8_t>(10'000);
};

TEST_P(Trains, MemoryThatVanishedUnderAWriteIsARemoteAccessError) {
  post(SendKind::write, 100'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
  EXPECT_EQ(memory_b[99'999], 0);
}

TEST_P(Trains, MemoryThatVanishedUnderASendFailsBothSides) {
  post_receive(100'000, 9);
  post(SendKind::send, 100'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_operation_error);
  const auto b = c.b.poll();
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].status, CompletionStatus::local_protection_error);
}

TEST_P(Trains, MemoryThatVanishedUnderTheLastPacketOfASendFailsBothSides) {
  const auto region = c.b.node->expose(c.b.pd, tail, Access::kLocalWrite);
  c.b.node->unmap(std::span{tail}.last(1));
  const std::array sges{piece(region, 10'000)};
  ASSERT_EQ(c.b.receive({.wr_id = 9, .sges = sges}), PostResult::posted);
  post(SendKind::send, 10'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_operation_error);
  const auto b = c.b.poll();
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].status, CompletionStatus::local_protection_error);
}

TEST_P(Trains, MemoryThatVanishedUnderOneMessageEndsNoOtherQueuePair) {
  Connection other{{}, *c.a.node, *c.b.node};
  std::vector<std::uint8_t> target(100'000);
  const unsigned access = Access::kLocalWrite | Access::kRemoteWrite;
  const auto from = other.a.node->expose(other.a.pd, memory_a, access);
  const auto to = other.b.node->expose(other.b.pd, target, access);
  const std::array sges{piece(from, 100'000)};
  auto write = request(SendKind::write, sges);
  write.remote_address = to.iova;
  write.rkey = to.key;
  ASSERT_EQ(other.a.send(write), PostResult::posted);
  post(SendKind::write, 100'000);

  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
  std::vector<Completion> done;
  EXPECT_TRUE(world.run_until(
      [&] {
        done = other.a.poll();
        return !done.empty();
      },
      60s));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::success);
  EXPECT_TRUE(std::equal(target.begin(), target.end(), memory_a.begin()));
}

TEST_P(Trains, MemoryThatVanishedUnderAReadFails) {
  c.a.node->unmap(std::span{memory_a}.subspan(30'000, 1));
  post(SendKind::read, 40'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::local_protection_error);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Trains, testing::Range<std::uint64_t>(0, 20));

TEST_F(Scenario, RegionThatWentAwayInTheMiddleOfAMessageIsNotWritten) {
  std::uint64_t frames = 0;
  world.filter = [&](const packet::Flow& flow, auto) {
    if (flow.source == c.a.node->address() && ++frames == 10) {
      EXPECT_TRUE(c.b.node->rnic().deregister_memory(region_b.key).ok());
    }
    return true;
  };
  post(SendKind::write, 100'000);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_access_error);
  EXPECT_EQ(memory_b[99'999], 0);
}

TEST_F(Scenario, ReceiveThatIsTooSmallFailsBothSides) {
  post_receive(100, 9);
  post(SendKind::send, 101);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_invalid_request);
  const auto b = c.b.poll();
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].wr_id, 9u);
  EXPECT_EQ(b[0].status, CompletionStatus::local_length_error);
}

TEST_F(Scenario, ReceiveIntoReadOnlyMemoryFailsBothSides) {
  std::vector<std::uint8_t> bytes(100);
  const auto read_only = c.b.node->expose(c.b.pd, bytes, 0);
  const std::array sges{piece(read_only, 100)};
  ASSERT_EQ(c.b.receive({.wr_id = 9, .sges = sges}), PostResult::posted);
  post(SendKind::send, 50);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::remote_operation_error);
  const auto b = c.b.poll();
  ASSERT_EQ(b.size(), 1u);
  EXPECT_EQ(b[0].status, CompletionStatus::local_protection_error);
}

TEST_F(Scenario, SendWaitsForAReceiveThatComesLate) {
  post(SendKind::send, 5000);
  EXPECT_FALSE(world.run_until([&] { return !c.a.cq->empty(); }, 1s));
  EXPECT_GT(c.a.node->rnic().counters().rcvd_rnr_err, 10u);
  post_receive(5000, 9);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::success);
  EXPECT_TRUE(std::equal(memory_a.begin(), memory_a.begin() + 5000, memory_b.begin()));
}

struct FewRnrRetries : Scenario {
  FewRnrRetries() : Scenario{{.rnr_retry = 3, .min_rnr_timer = 12}} {}
};

TEST_F(FewRnrRetries, AreCountedAndTimed) {
  const Instant start = world.now();
  post(SendKind::send, 10);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::rnr_retry_exceeded);
  EXPECT_EQ(c.b.node->rnic().counters().send_rnr_err, 4u);  // the first try and three more
  EXPECT_GE(world.now() - start, 3 * 640us);
}

TEST_F(Scenario, ErrorStateFlushesReceivesThatArePostedLater) {
  engine::QpAttributes to;
  to.state = QpState::error;
  ASSERT_TRUE(c.b.node->rnic().modify_qp(*c.b.qp, to, engine::Attr::kState).ok());
  post_receive(10, 1);
  post_receive(10, 2);
  std::vector<Completion> got;
  ASSERT_TRUE(world.run_until(
      [&] {
        const auto more = c.b.poll();
        got.insert(got.end(), more.begin(), more.end());
        return got.size() == 2;
      },
      1s));
  EXPECT_EQ(got[0].wr_id, 1u);
  EXPECT_EQ(got[1].wr_id, 2u);
  EXPECT_EQ(got[1].status, CompletionStatus::flushed);
}

TEST_F(Scenario, FramesFromAnotherAddressAreDropped) {
  world.filter = [&](const packet::Flow& flow, std::span<const std::uint8_t> frame) {
    if (flow.source != c.a.node->address()) return true;
    std::vector<std::uint8_t> bytes(frame.begin(), frame.end());
    bytes.resize(bytes.size() + packet::kIcrcSize);
    c.b.node->rnic().receive(test::delivered({.source = IpAddress::v4({6, 6, 6, 6}),
                                              .destination = flow.destination,
                                              .bytes = bytes}),
                             world.now());
    return false;
  };
  post(SendKind::write, 100);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::retry_exceeded);
  EXPECT_GT(c.b.node->rnic().counters().drop_source, 0u);
  EXPECT_EQ(memory_b, std::vector<std::uint8_t>(memory_b.size()));
}

TEST_F(Scenario, LostTailIsSentAgainLongBeforeTheTransportTimer) {
  post(SendKind::write, 100, 1);  // teaches the round-trip time
  (void)completions_of_a(1);
  bool drop = true;
  world.filter = [&](auto, auto) { return !std::exchange(drop, false); };
  const Instant start = world.now();
  post(SendKind::write, 100, 2);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::success);
  EXPECT_LT(world.now() - start, 5ms);  // the timer is at 67 ms
}

TEST_F(Scenario, LongReadIsAskedForInPiecesThatFitTheWindow) {
  std::uint32_t longest = 0;
  world.filter = [&](auto, std::span<const std::uint8_t> frame) {
    std::vector<std::uint8_t> bytes(frame.begin(), frame.end());
    bytes.resize(bytes.size() + packet::kIcrcSize);
    const auto parsed = packet::parse(bytes);
    const auto& p = std::get<packet::Packet>(parsed);
    if (p.info().kind == packet::Kind::read_request) longest = std::max(longest, p.reth.length);
    return true;
  };
  std::iota(memory_b.begin(), memory_b.end(), std::uint8_t{3});
  post(SendKind::read, 1u << 20);
  EXPECT_EQ(completions_of_a(1)[0].status, CompletionStatus::success);
  EXPECT_EQ(memory_a, memory_b);
  EXPECT_LE(longest, 512u * 1024);
}

TEST_F(Scenario, ReadsThatAreAskedForAgainTogetherAreAllAnswered) {
  post(SendKind::read, 64, 1);  // teaches the round-trip time
  (void)completions_of_a(1);
  int dropped = 0;
  world.filter = [&](const packet::Flow& flow, auto) {
    return flow.source == c.a.node->address() || ++dropped > 4;
  };
  for (std::uint64_t id = 2; id < 6; ++id) post(SendKind::read, 64, id);
  const auto got = completions_of_a(4);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(got[i].wr_id, i + 2);
  EXPECT_EQ(c.b.node->rnic().counters().duplicate_request, 4u);
  EXPECT_EQ(c.a.node->rnic().counters().early_retransmits, 1u);
}

TEST_F(Scenario, CompletionQueueThatOverrunsTakesItsQueuePairDown) {
  const std::array sges{piece(region_a, 1)};
  for (unsigned i = 0; i < 8; ++i) {
    for (unsigned j = 0; j < 64; ++j) {
      if (c.a.send(request(SendKind::write, sges, j)) != PostResult::posted) break;
    }
    (void)world.run_until([&] { return c.a.qp->sq.head() == c.a.qp->sq.tail(); }, 1s);
  }
  EXPECT_GT(c.a.node->rnic().counters().cq_overruns, 0u);
  EXPECT_EQ(c.a.qp->state.load(), QpState::error);
}

}  // namespace
}  // namespace verbena::sim
