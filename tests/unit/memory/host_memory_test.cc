#include "memory/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "memory/fault_handler.h"
#include "memory/guarded_copy.h"

namespace verbena::memory {
namespace {

std::uint64_t address_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

/// Parameter: copies are made in user mode, else by the kernel.
class HostMemoryTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !kHasGuardedCopy) GTEST_SKIP() << "no copy loop for this machine";
    signal_mask_changed();  // forgets what it knew of the handlers
    if (GetParam()) {
      catch_faults();
      check_fault_handlers(Instant{});
    }
    ASSERT_EQ(faults_are_caught(), GetParam());
    auto made = FrameBuffers::create(1 << 20);
    ASSERT_TRUE(made.ok()) << made.error().message;
    frames = std::move(*made);
    memory.emplace(*frames);
    std::iota(program.begin(), program.end(), std::uint8_t{1});
  }

  std::unique_ptr<FrameBuffers> frames;
  std::optional<HostMemory> memory;
  std::vector<std::uint8_t> program = std::vector<std::uint8_t>(5000);
};

/// Two pages of the program's, the second of which is gone.
class HalfGone {
 public:
  HalfGone() : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
    at_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(at_ + page_, page_);
  }
  ~HalfGone() { munmap(at_, page_); }
  HalfGone(const HalfGone&) = delete;
  HalfGone& operator=(const HalfGone&) = delete;

  [[nodiscard]] std::uint8_t* end() const { return at_ + page_; }
  void make_read_only() const { mprotect(at_, page_, PROT_READ); }

 private:
  std::size_t page_;
  std::uint8_t* at_;
};

TEST_P(HostMemoryTest, PartsOfFramesAreFilledInOrder) {
  constexpr std::size_t kSize = 1024;
  constexpr std::size_t kStride = kSize + 16;
  const auto first = frames->bytes().subspan(100, kSize);
  ASSERT_TRUE(memory->gather_parts(address_of(program.data()), {first, kStride, 4}));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(
        std::equal(program.begin() + static_cast<std::ptrdiff_t>(i * kSize),
                   program.begin() + static_cast<std::ptrdiff_t>((i + 1) * kSize),
                   frames->bytes().begin() + static_cast<std::ptrdiff_t>(100 + i * kStride)))
        << i;
  }
  EXPECT_EQ(frames->bytes()[100 + 3 * kStride + kSize], 0) << "nothing behind the last";
}

TEST_P(HostMemoryTest, PartsFarApartAreFilledToo) {
  const auto first = frames->bytes().first(100);
  ASSERT_TRUE(memory->gather_parts(address_of(program.data()), {first, 5000, 3}));
  EXPECT_EQ(frames->bytes()[10'000], program[200]);
}

TEST_P(HostMemoryTest, PartsFromMemoryThatIsGoneAreRefused) {
  const HalfGone half;
  const auto first = frames->bytes().first(100);
  EXPECT_FALSE(memory->gather_parts(address_of(half.end() - 150), {first, 116, 2}));
  EXPECT_TRUE(memory->gather_parts(address_of(half.end() - 200), {first, 116, 2}));
}

TEST_P(HostMemoryTest, GathersIntoMemoryThatIsNoFrameToo) {
  std::array<std::uint8_t, 216> elsewhere{};
  const auto first = std::span{elsewhere}.first(100);
  EXPECT_TRUE(memory->gather_parts(address_of(program.data()), {first, 116, 2}));
  EXPECT_TRUE(std::ranges::equal(first, std::span{program}.first(100)));
  EXPECT_TRUE(std::ranges::equal(std::span{elsewhere}.subspan(116, 100),
                                 std::span{program}.subspan(100, 100)));
}

class Scattered : public HostMemoryTest {
 protected:
  void SetUp() override {
    HostMemoryTest::SetUp();
    std::iota(frames->bytes().begin(), frames->bytes().end(), std::uint8_t{7});
  }
  Copy to(std::size_t offset, std::size_t from, std::size_t size) {
    return {frames->bytes().subspan(from, size), address_of(&target[offset])};
  }
  void expect(std::size_t offset, std::size_t from, std::size_t size) {
    EXPECT_TRUE(std::equal(target.begin() + static_cast<std::ptrdiff_t>(offset),
                           target.begin() + static_cast<std::ptrdiff_t>(offset + size),
                           frames->bytes().begin() + static_cast<std::ptrdiff_t>(from)))
        << offset;
  }

  std::vector<std::uint8_t> target = std::vector<std::uint8_t>(1000);
};

TEST_P(Scattered, WithHeadersBetween) {
  ASSERT_TRUE(memory->scatter_all(std::array{to(0, 12, 100), to(100, 128, 100), to(300, 244, 50)}));
  expect(0, 12, 100);
  expect(100, 128, 100);
  expect(300, 244, 50);
  EXPECT_EQ(target[200], 0) << "headers go nowhere";
}

TEST_P(Scattered, InAnyOrderOfFramesAndFarApart) {
  ASSERT_TRUE(
      memory->scatter_all(std::array{to(0, 5000, 10), to(10, 100, 10), to(20, 90'000, 10)}));
  expect(0, 5000, 10);
  expect(10, 100, 10);
  expect(20, 90'000, 10);
}

TEST_P(Scattered, MoreThanOneCallTakes) {
  std::vector<Copy> list;
  for (std::size_t i = 0; i < 200; ++i) list.push_back(to(5 * i, 30 * i, 5));
  ASSERT_TRUE(memory->scatter_all(list));
  for (std::size_t i = 0; i < 200; ++i) expect(5 * i, 30 * i, 5);
}

TEST_P(Scattered, FromOutsideTheFrames) {
  const std::array<std::uint8_t, 3> word{9, 8, 7};
  ASSERT_TRUE(memory->scatter_all(std::array{to(0, 0, 10), Copy{word, address_of(&target[20])}}));
  expect(0, 0, 10);
  EXPECT_EQ(target[22], 7);
}

TEST_P(Scattered, NothingWaitsToBeFinished) {
  ASSERT_TRUE(memory->scatter_all(std::array{to(0, 12, 100)}));
  EXPECT_FALSE(memory->pending());
  EXPECT_TRUE(memory->finish());
}

TEST_P(Scattered, AnAlignedWordAtTheEndStaysWhole) {
#if defined(__SANITIZE_THREAD__)
  if (GetParam()) GTEST_SKIP() << "the copies race with the program's threads";
#endif
  constexpr std::uint64_t kEach = 0x0101'0101'0101'0101;
  const std::atomic_ref word{*reinterpret_cast<std::uint64_t*>(&target[256])};
  std::atomic<bool> watches{false};
  std::atomic<std::uint64_t> torn{0};
  const std::jthread watcher{[&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); watches = true) {
      for (int i = 0; i < 1000; ++i) {
        const std::uint64_t seen = word.load(std::memory_order_relaxed);
        if (seen != (seen & 0xff) * kEach) torn = seen;
      }
    }
  }};
  std::fill(target.begin(), target.end(), std::uint8_t{0});
  while (!watches) std::this_thread::yield();
  for (int i = 0; i < 200'000; ++i) {
    const auto frame = frames->bytes().subspan(12, 40);
    std::fill(frame.begin(), frame.end(), static_cast<std::uint8_t>(i));
    ASSERT_TRUE(memory->scatter_all(std::array{to(256, 12, 8), to(224, 12, 40)}));
  }
  EXPECT_EQ(torn, 0u);
}

TEST_P(Scattered, MemoryThatIsGoneIsRefused) {
  const HalfGone half;
  const Copy gone{frames->bytes().subspan(300, 10), address_of(half.end() - 5)};
  EXPECT_FALSE(memory->scatter_all(std::array{to(0, 0, 10), gone, to(20, 400, 10)}));
  expect(0, 0, 10);
}

class Words : public HostMemoryTest {
 protected:
  [[nodiscard]] std::uint64_t at() const { return address_of(&word); }

  std::uint64_t word = 40;
};

TEST_P(Words, AreExchangedWhereTheyAreAsExpected) {
  EXPECT_EQ(memory->compare_swap(at(), 40, 2), 40u);
  EXPECT_EQ(word, 2u);
  EXPECT_EQ(memory->compare_swap(at(), 40, 3), 2u);
  EXPECT_EQ(word, 2u);
}

TEST_P(Words, AreAddedToAndSayWhatTheyHeld) {
  EXPECT_EQ(memory->fetch_add(at(), 2), 40u);
  EXPECT_EQ(word, 42u);
  EXPECT_EQ(memory->fetch_add(at(), ~std::uint64_t{0}), 42u) << "it wraps";
  EXPECT_EQ(word, 41u);
}

TEST_P(Words, AreStored) {
  EXPECT_TRUE(memory->store(at(), 7));
  EXPECT_EQ(word, 7u);
}

TEST_P(Words, ThatAreGoneOrReadOnlyAreRefused) {
  const HalfGone half;
  const std::uint64_t gone = address_of(half.end());
  const std::uint64_t read_only = address_of(half.end() - 8);
  half.make_read_only();
  for (const std::uint64_t address : {gone, read_only}) {
    EXPECT_FALSE(memory->compare_swap(address, 0, 1));
    EXPECT_FALSE(memory->fetch_add(address, 1));
    EXPECT_FALSE(memory->store(address, 1));
  }
}

TEST_P(Words, MayComeAndGoAtAnyMoment) {
  if (!GetParam()) GTEST_SKIP() << "the kernel has no call for atomic words";
  auto* const page = static_cast<std::uint64_t*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::uint64_t done = 0, refused = 0;
  {
    const std::jthread takes{[page](const std::stop_token& stop) {
      for (int left = PROT_NONE; !stop.stop_requested(); left ^= PROT_READ) {
        mprotect(page, 4096, left);
        mprotect(page, 4096, PROT_READ | PROT_WRITE);
      }
    }};
    while (done < 100'000 || refused < 100) {
      check_fault_handlers(Instant{});
      if (memory->fetch_add(address_of(page), 1)) {
        ++done;
      } else {
        ++refused;
      }
      static_cast<void>(memory->compare_swap(address_of(page + 1), 0, 0));
      static_cast<void>(memory->store(address_of(page + 2), 7));
    }
  }
  EXPECT_EQ(page[0], done) << "what was refused was not done";
  munmap(page, 4096);
}

std::string name_of(const testing::TestParamInfo<bool>& way) {
  return way.param ? "InUserMode" : "ByTheKernel";
}
INSTANTIATE_TEST_SUITE_P(Ways, HostMemoryTest, testing::Bool(), name_of);
INSTANTIATE_TEST_SUITE_P(Ways, Scattered, testing::Bool(), name_of);
INSTANTIATE_TEST_SUITE_P(Ways, Words, testing::Bool(), name_of);

}  // namespace
}  // namespace verbena::memory
