// Regions of two kinds of memory: the program's own, and one whose copies take time. Scatter and
// gather lists mix them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/sim/world.h"
#include "tests/support/deferred_memory.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionStatus;
using engine::MemoryRegion;
using engine::PostResult;
using engine::QpType;
using engine::SendKind;
using engine::Sge;
using test::DeferredMemory;

constexpr std::uint32_t kSize = 1u << 16;

/// Memory of one end: as much of each kind.
struct TwoKinds {
  explicit TwoKinds(End& end) {
    const unsigned all =
        Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
    plain_region = end.node->expose(end.pd, plain, all);
    const memory::Segment s = slow.at(0, kSize);
    slow_region = end.node->rnic().register_memory(end.pd, s, s.address, all).value();
  }
  [[nodiscard]] Sge in_plain(std::uint32_t offset, std::uint32_t length) const {
    return {plain_region.iova + offset, length, plain_region.key};
  }
  [[nodiscard]] Sge in_slow(std::uint32_t offset, std::uint32_t length) const {
    return {slow_region.iova + offset, length, slow_region.key};
  }

  std::vector<std::uint8_t> plain = std::vector<std::uint8_t>(kSize);
  DeferredMemory slow{kSize};
  MemoryRegion plain_region;
  MemoryRegion slow_region;
};

/// The parameter decides which packets arrive together.
struct MemoryKinds : testing::TestWithParam<std::uint64_t> {
  explicit MemoryKinds(QpType type = QpType::rc) : c{world, {.type_a = type, .type_b = type}} {
    world.come_together(GetParam());
    std::iota(a.plain.begin(), a.plain.end(), std::uint8_t{1});
    std::iota(a.slow.bytes.begin(), a.slow.bytes.end(), std::uint8_t{101});
    world.filter = [this](const packet::Flow& flow, auto) {
      // Whatever leaves tells of copies that are done, or has been copied into.
      EXPECT_FALSE((flow.source == c.a.node->address() ? a : b).slow.pending());
      return true;
    };
  }

  void post(SendKind kind, std::span<const Sge> sges, const Sge& remote = {}) {
    ASSERT_EQ(c.a.send({.kind = kind,
                        .signaled = true,
                        .remote_address = remote.address,
                        .rkey = remote.lkey,
                        .sges = sges}),
              PostResult::posted);
  }
  Completion wait(End& end) {
    std::vector<Completion> got;
    EXPECT_TRUE(world.run_until(
        [&] {
          const auto more = end.poll();
          got.insert(got.end(), more.begin(), more.end());
          return !got.empty();
        },
        10s));
    EXPECT_FALSE(a.slow.pending());
    EXPECT_FALSE(b.slow.pending());
    return got.empty() ? Completion{} : got.front();
  }
  static void expect_same(std::span<const std::uint8_t> got, std::span<const std::uint8_t> sent) {
    EXPECT_TRUE(std::equal(got.begin(), got.end(), sent.begin(), sent.end()));
  }

  World world{7, {}};
  Connection c;
  TwoKinds a{c.a};
  TwoKinds b{c.b};
};

TEST_P(MemoryKinds, WriteReachesMemoryWhoseCopiesTakeTime) {
  post(SendKind::write, std::array{a.in_plain(0, 20'000)}, b.in_slow(100, 20'000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::success);
  expect_same(std::span{b.slow.bytes}.subspan(100, 20'000), std::span{a.plain}.first(20'000));
  EXPECT_LE(b.slow.finishes, b.slow.starts);
}

TEST_P(MemoryKinds, SendGathersAndScattersListsThatMixThem) {
  const std::array into{b.in_slow(0, 700), b.in_plain(0, 3000), b.in_slow(1000, 2000),
                        b.in_plain(5000, 9000)};
  ASSERT_EQ(c.b.receive({.wr_id = 5, .sges = into}), PostResult::posted);
  post(SendKind::send, std::array{a.in_plain(0, 1500), a.in_slow(0, 1500), a.in_slow(4000, 1500),
                                  a.in_plain(7000, 4000)});
  EXPECT_EQ(wait(c.b).byte_count, 8500u);

  std::vector<std::uint8_t> sent;
  const auto add = [](std::vector<std::uint8_t>& all, const std::vector<std::uint8_t>& from,
                      std::size_t offset, std::size_t size) {
    const auto piece = std::span{from}.subspan(offset, size);
    all.insert(all.end(), piece.begin(), piece.end());
  };
  add(sent, a.plain, 0, 1500);
  add(sent, a.slow.bytes, 0, 1500);
  add(sent, a.slow.bytes, 4000, 1500);
  add(sent, a.plain, 7000, 4000);
  std::vector<std::uint8_t> got;
  add(got, b.slow.bytes, 0, 700);
  add(got, b.plain, 0, 3000);
  add(got, b.slow.bytes, 1000, 2000);
  add(got, b.plain, 5000, 2800);
  EXPECT_EQ(got, sent);
}

TEST_P(MemoryKinds, ReadComesFromOneKindAndGoesIntoTheOther) {
  std::iota(b.slow.bytes.begin(), b.slow.bytes.end(), std::uint8_t{55});
  post(SendKind::read, std::array{a.in_plain(0, 6000), a.in_slow(0, 6000)}, b.in_slow(10, 12'000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::success);
  expect_same(std::span{a.plain}.first(6000), std::span{b.slow.bytes}.subspan(10, 6000));
  expect_same(std::span{a.slow.bytes}.first(6000), std::span{b.slow.bytes}.subspan(6010, 6000));
}

TEST_P(MemoryKinds, AtomicIsDoneByTheKindOfItsWord) {
  b.slow.bytes[8] = 40;
  ASSERT_EQ(c.a.send({.kind = SendKind::fetch_add,
                      .signaled = true,
                      .remote_address = b.slow_region.iova + 8,
                      .rkey = b.slow_region.key,
                      .sges = std::array{a.in_slow(0, 8)},
                      .atomic = {.swap_or_add = 2}}),
            PostResult::posted);
  EXPECT_EQ(wait(c.a).status, CompletionStatus::success);
  EXPECT_EQ(b.slow.bytes[8], 42);
  EXPECT_EQ(a.slow.bytes[0], 40);
}

// Failures that show only when copies are finished are those of memory that is gone.

TEST_P(MemoryKinds, WriteThatFailsInTheEndIsARemoteAccessError) {
  b.slow.fails = true;
  post(SendKind::write, std::array{a.in_plain(0, 20'000)}, b.in_slow(0, 20'000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::remote_access_error);
  EXPECT_TRUE(c.b.node->saw(engine::EventKind::qp_access_error));
}

TEST_P(MemoryKinds, SendThatFailsInTheEndFailsBothSides) {
  b.slow.fails = true;
  const std::array into{b.in_plain(0, 100), b.in_slow(0, 20'000)};
  ASSERT_EQ(c.b.receive({.wr_id = 5, .sges = into}), PostResult::posted);
  post(SendKind::send, std::array{a.in_plain(0, 9000)});
  EXPECT_EQ(wait(c.a).status, CompletionStatus::remote_operation_error);
  EXPECT_EQ(wait(c.b).status, CompletionStatus::local_protection_error);
}

TEST_P(MemoryKinds, ReadWhoseResponseFailsInTheEndIsALocalProtectionError) {
  a.slow.fails = true;
  post(SendKind::read, std::array{a.in_slow(0, 9000)}, b.in_plain(0, 9000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::local_protection_error);
}

TEST_P(MemoryKinds, ReadOfMemoryThatFailsInTheEndIsARemoteAccessError) {
  b.slow.fails = true;
  post(SendKind::read, std::array{a.in_plain(0, 9000)}, b.in_slow(0, 9000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::remote_access_error);
}

TEST_P(MemoryKinds, GatherThatFailsInTheEndIsALocalProtectionError) {
  a.slow.fails = true;
  post(SendKind::write, std::array{a.in_slow(0, 9000)}, b.in_plain(0, 9000));
  EXPECT_EQ(wait(c.a).status, CompletionStatus::local_protection_error);
}

INSTANTIATE_TEST_SUITE_P(Trains, MemoryKinds, testing::Values(1u, 2u, 3u));

struct UnreliableMemoryKinds : MemoryKinds {
  UnreliableMemoryKinds() : MemoryKinds{QpType::uc} {}
};

TEST_P(UnreliableMemoryKinds, SendCompletesWhenItsBytesAreThere) {
  const std::array into{b.in_slow(0, 700), b.in_plain(0, 9000)};
  ASSERT_EQ(c.b.receive({.wr_id = 5, .sges = into}), PostResult::posted);
  post(SendKind::send, std::array{a.in_slow(0, 4000)});
  EXPECT_EQ(wait(c.b).byte_count, 4000u);
  expect_same(std::span{b.slow.bytes}.first(700), std::span{a.slow.bytes}.first(700));
  expect_same(std::span{b.plain}.first(3300), std::span{a.slow.bytes}.subspan(700, 3300));
}

TEST_P(UnreliableMemoryKinds, ReceiveThatFailsInTheEndIsALocalProtectionError) {
  b.slow.fails = true;
  const std::array into{b.in_slow(0, 9000)};
  ASSERT_EQ(c.b.receive({.wr_id = 5, .sges = into}), PostResult::posted);
  post(SendKind::send, std::array{a.in_plain(0, 4000)});
  EXPECT_EQ(wait(c.b).status, CompletionStatus::local_protection_error);
}

INSTANTIATE_TEST_SUITE_P(Trains, UnreliableMemoryKinds, testing::Values(1u));

}  // namespace
}  // namespace verbena::sim
