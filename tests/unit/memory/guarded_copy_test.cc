#include "memory/guarded_copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stop_token>
#include <thread>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "memory/fault_handler.h"

namespace verbena::memory {
namespace {

using CopyFunction = bool (*)(void*, const void*, std::size_t);

class GuardedCopy : public testing::TestWithParam<CopyFunction> {
 protected:
  void SetUp() override {
    if (!kHasGuardedCopy) GTEST_SKIP() << "no copy loop for this machine";
    catch_faults();
    check_fault_handlers(Instant{std::chrono::hours{1}});
    ASSERT_TRUE(faults_are_caught());
  }
  [[nodiscard]] static bool copy(void* to, const void* from, std::size_t bytes) {
    return GetParam()(to, from, bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(Ways, GuardedCopy, testing::Values(&guarded_scatter, &guarded_gather),
                         [](const auto& way) {
                           return way.param == &guarded_scatter ? "Scatter" : "Gather";
                         });

TEST_P(GuardedCopy, CopiesEachSizeAtEachAlignmentAndNothingElse) {
  constexpr std::size_t kMost = 200, kBefore = 32;
  alignas(64) std::array<std::uint8_t, kMost + 16> from;
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  using Target = std::array<std::uint8_t, kMost + 64>;
  for (std::size_t size = 0; size <= kMost; ++size) {
    for (std::size_t a = 0; a < 16; ++a) {
      for (std::size_t b = 0; b < 16; ++b) {
        alignas(64) Target to;
        to.fill(0xee);
        Target expected = to;
        std::copy_n(&from[a], size, &expected[kBefore + b]);
        ASSERT_TRUE(copy(&to[kBefore + b], &from[a], size));
        ASSERT_EQ(to, expected) << size << ' ' << a << ' ' << b;
      }
    }
  }
}

TEST_P(GuardedCopy, CopiesLargerOnes) {
  std::vector<std::uint8_t> from(1200), to(1200);
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  for (std::size_t size = 200; size <= 1100; ++size) {
    for (const auto& [a, b] : {std::tuple{0, 0}, {1, 0}, {0, 1}, {7, 9}, {15, 17}, {28, 44}}) {
      std::fill(to.begin(), to.end(), std::uint8_t{0xee});
      ASSERT_TRUE(copy(to.data() + b, from.data() + a, size));
      ASSERT_TRUE(
          std::equal(from.begin() + a, from.begin() + a + static_cast<long>(size), to.begin() + b))
          << size << ' ' << a << ' ' << b;
      ASSERT_EQ(to[size + static_cast<std::size_t>(b)], 0xee) << size << ' ' << a << ' ' << b;
    }
  }
}

TEST_P(GuardedCopy, CopiesMegabytes) {
  std::vector<std::uint8_t> from(3'000'001), to(from.size());
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  ASSERT_TRUE(copy(to.data(), from.data(), from.size()));
  EXPECT_EQ(from, to);
}

/// Two pages. The second one can lose its rights.
class Pages {
 public:
  Pages() : page_{static_cast<std::size_t>(sysconf(_SC_PAGESIZE))} {
    at_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Pages() { munmap(at_, 2 * page_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::uint8_t* second() const { return at_ + page_; }
  void allow(int what) const { ASSERT_EQ(mprotect(second(), page_, what), 0); }

 private:
  std::size_t page_;
  std::uint8_t* at_;
};

TEST_P(GuardedCopy, IsRefusedWhereverItsRangeMeetsWhatIsGone) {
  const Pages pages;
  std::vector<std::uint8_t> other(1024);
  std::vector<std::size_t> sizes{100, 256, 1000};
  for (std::size_t size = 1; size <= 80; ++size) sizes.push_back(size);
  for (const int left : {PROT_NONE, PROT_READ}) {
    pages.allow(left);
    for (const std::size_t size : sizes) {
      for (std::size_t beyond = 1; beyond <= size; ++beyond) {
        std::uint8_t* const at = pages.second() + beyond - size;
        for (const std::size_t shift : {0u, 4u, 7u}) {  // of the other side's alignment
          ASSERT_FALSE(copy(at, &other[shift], size)) << size << ' ' << beyond;
          ASSERT_EQ(copy(&other[shift], at, size), left == PROT_READ) << size << ' ' << beyond;
        }
      }
      ASSERT_TRUE(copy(pages.second() - size, other.data(), size));
    }
  }
}

TEST_P(GuardedCopy, SurvivesFilesThatWereCut) {
  const int fd = memfd_create("cut", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  void* const at = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_EQ(ftruncate(fd, 0), 0);  // SIGBUS from now on
  std::uint8_t bytes[100]{};
  EXPECT_FALSE(copy(at, bytes, sizeof bytes));
  EXPECT_FALSE(copy(bytes, at, sizeof bytes));
  munmap(at, 4096);
  close(fd);
}

// ---- towards another thread

/// All bytes of a word are the same number, so that pieces of two words show.
template <typename Word>
constexpr Word marked(std::uint8_t mark) {
  return static_cast<Word>(mark * 0x0101'0101'0101'0101u);
}
template <typename Word>
bool is_whole(Word word) {
  return word == marked<Word>(static_cast<std::uint8_t>(word));
}

/// Where a word of the program's lies in a copy, and how the frame lies towards it.
struct Place {
  std::size_t before, after, shift;
};
constexpr Place kPlaces[] = {{0, 0, 0},   {0, 0, 1},  {0, 0, 4},  {8, 0, 0},  {8, 0, 3},
                             {13, 0, 0},  {4, 0, 4},  {30, 0, 4}, {64, 0, 0}, {0, 13, 4},
                             {5, 9, 0},   {4, 60, 0}, {4, 60, 4}, {36, 3, 7}, {65, 65, 4},
                             {100, 0, 0}, {0, 120, 0}};

template <typename Word>
struct Race {
  explicit Race(Place p)
      : program{&memory[256 - p.before]},
        frame{&frames[64 + p.shift]},
        bytes{p.before + sizeof(Word) + p.after} {}
  std::atomic_ref<Word> word() { return std::atomic_ref{*reinterpret_cast<Word*>(&memory[256])}; }

  alignas(64) std::array<std::uint8_t, 512> memory{};
  alignas(64) std::array<std::uint8_t, 512> frames{};
  std::uint8_t* program;
  std::uint8_t* frame;
  std::size_t bytes;
};

/// The program polls a counter that is written.
template <typename Word>
void watch_scatters(CopyFunction copy, Place place) {
  Race<Word> race{place};
  std::atomic<bool> watches{false}, torn{false};
  std::jthread watcher{[&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); watches = true) {
      for (int i = 0; i < 100; ++i) {
        if (!is_whole(race.word().load(std::memory_order_relaxed))) torn = true;
      }
    }
  }};
  while (!watches) std::this_thread::yield();
  for (int i = 0; i < 20'000; ++i) {
    std::fill_n(race.frame, race.bytes, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(copy(race.program, race.frame, race.bytes));
  }
  EXPECT_FALSE(torn) << sizeof(Word) << " bytes behind " << place.before << " of " << race.bytes;
}

/// The program changes a counter that is read.
template <typename Word>
void watch_gathers(CopyFunction copy, Place place) {
  Race<Word> race{place};
  std::atomic<bool> changes{false};
  std::jthread writer{[&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); changes = true) {
      for (int i = 0; i < 256; ++i) {
        race.word().store(marked<Word>(static_cast<std::uint8_t>(i)), std::memory_order_relaxed);
      }
    }
  }};
  while (!changes) std::this_thread::yield();
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(copy(race.frame, race.program, race.bytes));
    Word word;
    std::memcpy(&word, race.frame + place.before, sizeof word);
    ASSERT_TRUE(is_whole(word)) << sizeof(Word) << " bytes behind " << place.before << " of "
                                << race.bytes;
  }
}

TEST_P(GuardedCopy, AnAlignedCounterStaysWhole) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the copies race with the program's threads";
#endif
  const auto watch = [](auto word, Place place) {
    using Word = decltype(word);
    if (GetParam() == &guarded_scatter) {
      watch_scatters<Word>(GetParam(), place);
    } else {
      watch_gathers<Word>(GetParam(), place);
    }
  };
  for (const Place place : kPlaces) {
    watch(std::uint64_t{}, place);
    watch(std::uint32_t{}, place);
    watch(std::uint16_t{}, place);
  }
}

}  // namespace
}  // namespace verbena::memory
