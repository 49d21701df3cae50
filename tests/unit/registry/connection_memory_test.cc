#include "registry/connection_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "registry/shared_table.h"

namespace verbena::registry::test {
namespace {

using namespace std::chrono_literals;

ConnectionRecord record(std::uint32_t number) {
  return {.local_id = (5u << 22) | number,
          .remote_id = 0x8000'0000 | number,
          .local = IpAddress::v4({10, 0, 0, 1}),
          .remote = *IpAddress::parse("10.0.0.2"),
          .remote_gsi = Qpn{1},
          .remote_qpn = Qpn{0xabcdef},
          .interval = 4s,
          .retries = 15};
}

class ConnectionMemoryTest : public testing::Test {
 protected:
  RowClaim add(std::uint32_t slot, std::uint32_t number) {
    return memory->add(slot, record(number)).value();
  }

  std::unique_ptr<ConnectionMemory> memory = std::make_unique<ConnectionMemory>();
};

TEST_F(ConnectionMemoryTest, KeepsARecordUntilItIsRemoved) {
  const RowClaim row = add(5, 1);
  EXPECT_EQ(row.slot(), 5u);
  EXPECT_EQ(memory->read(row), record(1));
  EXPECT_TRUE(memory->remove(row));
  EXPECT_FALSE(memory->remove(row)) << "it is nobody's any more";
  EXPECT_FALSE(memory->look(row.index));
  EXPECT_FALSE(memory->read(row));
}

TEST_F(ConnectionMemoryTest, ARowThatIsUsedAgainIsNotTheOldOne) {
  const RowClaim old = add(5, 1);
  memory->remove(old);
  const RowClaim row = add(5, 2);
  ASSERT_EQ(row.index, old.index);
  EXPECT_FALSE(memory->unchanged(old));
  EXPECT_FALSE(memory->remove(old));
  EXPECT_FALSE(memory->adopt(old, 6));
  EXPECT_EQ(memory->read(row), record(2));
}

TEST_F(ConnectionMemoryTest, RowsAfterTheLastOneInUseAreNotWorthALook) {
  const RowClaim first = add(5, 1);
  const RowClaim second = add(5, 2);
  const RowClaim third = add(5, 3);
  EXPECT_EQ(memory->bound(), 3u);
  memory->remove(second);
  EXPECT_EQ(memory->bound(), 3u);
  memory->remove(third);
  EXPECT_EQ(memory->bound(), 1u);
  memory->remove(first);
  EXPECT_EQ(memory->bound(), 0u);
  add(5, 4);
  EXPECT_EQ(memory->bound(), 1u);
}

TEST_F(ConnectionMemoryTest, NoRowInUseIsBeyondTheBound) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kRounds = 20'000;
  std::atomic<int> beyond = 0;
  const auto work = [&](std::uint32_t slot) {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      const RowClaim one = add(slot, 1);
      const RowClaim two = add(slot, 2);
      if (memory->bound() <= two.index) ++beyond;
      memory->remove(two);
      if (memory->bound() <= one.index) ++beyond;
      memory->remove(one);
    }
  };
  std::vector<std::jthread> threads;
  for (std::uint32_t slot = 1; slot <= kThreads; ++slot) threads.emplace_back(work, slot);
  threads.clear();
  EXPECT_EQ(beyond, 0);
  EXPECT_EQ(add(5, 1).index, 0u) << "all are free";
}

TEST_F(ConnectionMemoryTest, SaysWhenItIsFull) {
  std::vector<RowClaim> rows;
  for (std::uint32_t i = 0; i < ConnectionMemory::kRows; ++i) rows.push_back(add(5, i + 1));
  EXPECT_FALSE(memory->add(5, record(1)));
  memory->remove(rows[77]);
  const auto again = memory->add(5, record(1));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->index, rows[77].index);
}

TEST_F(ConnectionMemoryTest, OneOfThoseWhoWantARowGetsIt) {
  constexpr std::uint32_t kRows = 1000;
  std::vector<RowClaim> rows;
  for (std::uint32_t i = 0; i < kRows; ++i) rows.push_back(add(5, i + 1));
  std::atomic<unsigned> got{0};
  std::vector<std::thread> threads;
  for (std::uint32_t slot = 6; slot < 9; ++slot) {
    threads.emplace_back([&, slot] {
      for (const RowClaim& row : rows) got += memory->adopt(row, slot).has_value();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(got, kRows);
}

TEST_F(ConnectionMemoryTest, WhoAdoptsARowCanDieToo) {
  const auto adopted = memory->adopt(add(5, 1), 6);
  ASSERT_TRUE(adopted);
  EXPECT_EQ(adopted->state(), RowState::adopted);
  EXPECT_EQ(adopted->slot(), 6u);
  const auto again = memory->adopt(*adopted, 7);
  ASSERT_TRUE(again);
  EXPECT_FALSE(memory->unchanged(*adopted));
  EXPECT_EQ(memory->read(*again), record(1));
}

TEST_F(ConnectionMemoryTest, WhatADyingProcessHadHalfWrittenMeansNothing) {
  RowClaim row = add(5, 1);
  row.head = RowHead{5, RowState::written, 99}.word();
  memory->rows[row.index].head = row.head;
  EXPECT_TRUE(memory->look(row.index));
  EXPECT_FALSE(memory->read(row));
  EXPECT_TRUE(memory->remove(row));
}

TEST_F(ConnectionMemoryTest, ASlotsNextProcessDoesNotInheritConnections) {
  auto table = std::move(SharedTable::found()).value();
  const auto row = table.connections().add(5, record(1));
  table.hold(5);
  const auto left = table.connections().look(row->index);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->slot(), 0u);
  EXPECT_FALSE(table.held(left->slot())) << "whoever looks can adopt it";
  EXPECT_EQ(table.connections().read(*left), record(1));
}

TEST_F(ConnectionMemoryTest, WhatCannotBeAConnectionIsNotRead) {
  const auto refused = [this](auto change) {
    ConnectionRecord r = record(1);
    change(r);
    return !memory->read(memory->add(5, r).value());
  };
  EXPECT_TRUE(refused([](ConnectionRecord& r) { r.local_id = 0; }));
  EXPECT_TRUE(refused([](ConnectionRecord& r) { r.remote_id = 0; }));
  EXPECT_TRUE(refused([](ConnectionRecord& r) { r.local = *IpAddress::parse("fd00::1"); }));
  EXPECT_TRUE(refused([](ConnectionRecord& r) { r.remote = IpAddress::v4({224, 0, 0, 1}); }));
  EXPECT_TRUE(refused([](ConnectionRecord& r) { r.interval = -1s; }));
  EXPECT_FALSE(refused([](ConnectionRecord&) {}));
}

TEST_F(ConnectionMemoryTest, SurvivesAnyContents) {
  std::mt19937_64 random{7};
  for (int round = 0; round < 20; ++round) {
    memory->used = UINT64_MAX;
    for (auto& row : memory->rows) {
      row.head = random();
      for (auto& word : row.words) word = random();
    }
    ASSERT_EQ(memory->bound(), ConnectionMemory::kRows);
    for (std::size_t i = 0; i < memory->bound(); ++i) {
      const auto row = memory->look(i);
      if (!row) continue;
      ASSERT_LT(row->slot(), Qpn::kSlots);
      if (const auto r = memory->read(*row)) {
        ASSERT_EQ(r->local.is_v4(), r->remote.is_v4());
        ASSERT_GT(r->interval, Duration{});
      }
      if (i % 2 == 0) (void)memory->adopt(*row, 6);
    }
    memory->disown(6);
    for (std::size_t i = 0; i < memory->bound(); ++i) {
      const auto row = memory->look(i);
      ASSERT_TRUE(!row || row->slot() != 6);
      if (row) {
        ASSERT_TRUE(memory->remove(*row));
      }
    }
    ASSERT_TRUE(memory->add(6, record(1)));
  }
}

}  // namespace
}  // namespace verbena::registry::test
