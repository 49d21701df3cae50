#include "engine/copies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/queue_pair.h"
#include "tests/support/deferred_memory.h"

namespace verbena::engine {
namespace {

/// Plain memory. Counts its calls, and knows an address that is gone.
class Memory final : public memory::Dma {
 public:
  bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override {
    for (const Segment& s : from) {
      std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
      into = into.subspan(s.length);
    }
    return true;
  }
  bool scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) override {
    ++single;
    return write(from, into);
  }
  bool scatter_all(std::span<const memory::Copy> list) override {
    ++many;
    return std::all_of(list.begin(), list.end(), [this](const memory::Copy& c) {
      return write(c.from, std::array{Segment{c.to, c.from.size(), this}});
    });
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return {};
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override { return {}; }
  bool store(std::uint64_t, std::uint64_t) override { return false; }

  [[nodiscard]] Segment at(std::size_t offset, std::size_t size) {
    return {reinterpret_cast<std::uint64_t>(bytes.data()) + offset, size, this};
  }

  std::array<std::uint8_t, 1000> bytes{};
  std::size_t gone = std::numeric_limits<std::size_t>::max();
  int single = 0;
  int many = 0;

 private:
  bool write(std::span<const std::uint8_t> from, std::span<const Segment> into) {
    for (const Segment& s : into) {
      const auto offset = s.address - reinterpret_cast<std::uint64_t>(bytes.data());
      if (gone >= offset && gone < offset + s.length) return false;
      std::memcpy(&bytes[offset], from.data(), s.length);
      from = from.subspan(s.length);
    }
    return true;
  }
};

class CopiesTest : public testing::Test {
 protected:
  CopiesTest() {
    for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::uint8_t>(i + 1);
  }
  /// `size` bytes of the frame from `offset` on, to the same place.
  bool copy(std::size_t offset, std::size_t size) {
    return copies.scatter(std::span{frame}.subspan(offset, size),
                          std::array{memory.at(offset, size)});
  }

  std::array<std::uint8_t, 200> frame;
  Memory memory;
  test::DeferredMemory slow{1000};
  Copies copies;
  alignas(QueuePair) std::array<std::byte, sizeof(QueuePair)> nobody{};
  QueuePair& qp = reinterpret_cast<QueuePair&>(nobody);  // it is named, not looked at
};

TEST_F(CopiesTest, OneThatNeedNotWaitIsDoneAtOnce) {
  EXPECT_TRUE(copy(0, 8));
  EXPECT_EQ(memory.bytes[7], 8);
  EXPECT_FALSE(copies.waiting());
  EXPECT_EQ(memory.single, 1);
}

TEST_F(CopiesTest, ThoseThatWaitAreDoneWithTheLast) {
  copies.let_wait(qp, true);
  EXPECT_TRUE(copy(0, 8));
  EXPECT_TRUE(copy(8, 8));
  EXPECT_TRUE(copies.waiting());
  EXPECT_EQ(copies.owner(), &qp);
  EXPECT_TRUE(copies.response());
  EXPECT_EQ(memory.bytes[0], 0) << "not yet";
  copies.hurry();
  EXPECT_TRUE(copy(16, 8));
  EXPECT_FALSE(copies.waiting());
  EXPECT_TRUE(std::equal(frame.begin(), frame.begin() + 24, memory.bytes.begin()));
  EXPECT_EQ(memory.many, 1);
}

TEST_F(CopiesTest, APieceOfAPacketGoesWhereItsSegmentSays) {
  copies.let_wait(qp, false);
  EXPECT_TRUE(
      copies.scatter(std::span{frame}.first(10), std::array{memory.at(500, 4), memory.at(100, 6)}));
  EXPECT_TRUE(copies.finish());
  EXPECT_EQ(memory.bytes[503], 4);
  EXPECT_EQ(memory.bytes[100], 5);
  EXPECT_EQ(memory.bytes[105], 10);
}

TEST_F(CopiesTest, MemoryThatIsGoneIsToldByTheNext) {
  memory.gone = 4;
  copies.let_wait(qp, false);
  EXPECT_TRUE(copy(0, 8));
  copies.hurry();
  EXPECT_FALSE(copy(8, 8));
  EXPECT_FALSE(copies.waiting()) << "told once";
  EXPECT_TRUE(copies.finish());
}

TEST_F(CopiesTest, NoMoreWaitThanThereIsRoomFor) {
  copies.let_wait(qp, false);
  for (std::size_t i = 0; i < 65; ++i) EXPECT_TRUE(copy(i, 1));
  EXPECT_EQ(memory.many, 1);
  EXPECT_EQ(memory.bytes[63], 64);
  EXPECT_EQ(memory.bytes[64], 0);
  EXPECT_TRUE(copies.finish());
  EXPECT_EQ(memory.bytes[64], 65);
}

TEST_F(CopiesTest, ListThatMixesKindsIsDoneOnReturn) {
  EXPECT_TRUE(copies.scatter(std::span{frame}.first(12),
                             std::array{memory.at(0, 4), slow.at(10, 4), memory.at(100, 4)}));
  EXPECT_FALSE(slow.pending());
  EXPECT_EQ(slow.finishes, 1);
  EXPECT_EQ(memory.bytes[3], 4);
  EXPECT_EQ(slow.bytes[10], 5);
  EXPECT_EQ(memory.bytes[100], 9);

  std::array<std::uint8_t, 12> gathered{};
  EXPECT_TRUE(copies.gather(std::array{slow.at(10, 4), memory.at(0, 4), slow.at(12, 4)}, gathered));
  EXPECT_FALSE(slow.pending());
  EXPECT_EQ(slow.finishes, 2) << "once for both runs";
  EXPECT_EQ(gathered, (std::array<std::uint8_t, 12>{5, 6, 7, 8, 1, 2, 3, 4, 7, 8, 0, 0}));
}

TEST_F(CopiesTest, KindsMayChangeWhileCopiesWait) {
  copies.let_wait(qp, false);
  EXPECT_TRUE(copy(0, 8));
  EXPECT_TRUE(copies.scatter(std::span{frame}.subspan(8, 8), std::array{slow.at(0, 8)}));
  EXPECT_TRUE(copies.scatter(std::span{frame}.subspan(16, 8), std::array{slow.at(8, 8)}));
  EXPECT_TRUE(copy(24, 8));
  EXPECT_TRUE(copies.waiting());
  EXPECT_EQ(slow.bytes[0], 0) << "started, not finished";
  EXPECT_TRUE(copies.finish());
  EXPECT_FALSE(copies.waiting());
  EXPECT_EQ(slow.finishes, 1);
  EXPECT_TRUE(std::equal(frame.begin() + 8, frame.begin() + 24, slow.bytes.begin()));
  EXPECT_EQ(memory.bytes[31], 32);
}

TEST_F(CopiesTest, CopyThatFailsWhenItIsFinishedIsTold) {
  slow.fails = true;
  EXPECT_FALSE(copies.scatter(std::span{frame}.first(8), std::array{slow.at(0, 8)}));
  std::array<std::uint8_t, 8> gathered{};
  EXPECT_FALSE(copies.gather(std::array{slow.at(0, 4), memory.at(0, 4)}, gathered));
  EXPECT_FALSE(Copies::gather_parts(slow.at(0, 8), {std::span{gathered}.first(4), 4, 2}));
  copies.let_wait(qp, false);
  EXPECT_TRUE(copies.scatter(std::span{frame}.first(8), std::array{slow.at(0, 8)}));
  EXPECT_FALSE(copies.finish());
  EXPECT_TRUE(copies.finish()) << "told once";
}

TEST_F(CopiesTest, MemoryThatIsGoneLeavesNothingPending) {
  memory.gone = 4;
  copies.let_wait(qp, false);
  EXPECT_TRUE(copies.scatter(std::span{frame}.first(8), std::array{slow.at(0, 8)}));
  EXPECT_TRUE(copy(0, 8));
  EXPECT_FALSE(copies.scatter(std::span{frame}.first(8), std::array{slow.at(0, 8)}));
  EXPECT_FALSE(slow.pending());
}

}  // namespace
}  // namespace verbena::engine
