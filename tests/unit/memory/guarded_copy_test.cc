#include "memory/guarded_copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
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

INSTANTIATE_TEST_SUITE_P(Ways, GuardedCopy, testing::Values(&guarded_copy, &guarded_copy_streamed),
                         [](const auto& way) {
                           return way.param == &guarded_copy ? "Plain" : "Streamed";
                         });

TEST_P(GuardedCopy, CopiesEachSizeAtEachAlignmentAndNothingElse) {
  constexpr std::size_t kMost = 400;
  std::vector<std::uint8_t> from(kMost + 64);
  std::iota(from.begin(), from.end(), std::uint8_t{1});
  for (std::size_t size = 0; size <= kMost; ++size) {
    for (const auto& [a, b] : {std::tuple{0, 0}, {1, 0}, {0, 1}, {7, 9}, {15, 17}, {28, 44}}) {
      std::vector<std::uint8_t> to(kMost + 128, 0xee);
      ASSERT_TRUE(copy(to.data() + 32 + b, from.data() + a, size));
      const auto begin = to.begin() + 32 + b, end = begin + static_cast<std::ptrdiff_t>(size);
      ASSERT_TRUE(std::equal(begin, end, from.begin() + a)) << size << ' ' << a << ' ' << b;
      ASSERT_TRUE(std::all_of(to.begin(), begin, [](auto x) { return x == 0xee; })) << size;
      ASSERT_TRUE(std::all_of(end, to.end(), [](auto x) { return x == 0xee; })) << size;
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
  for (std::size_t size : {1u, 2u, 3u, 4u, 7u, 8u, 15u, 16u, 31u, 33u, 64u, 100u, 256u, 1000u}) {
    for (std::size_t beyond = 1; beyond <= size; ++beyond) {
      std::uint8_t* const at = pages.second() + beyond - size;
      pages.allow(PROT_NONE);
      ASSERT_FALSE(copy(at, other.data(), size)) << size << ' ' << beyond;
      ASSERT_FALSE(copy(other.data(), at, size)) << size << ' ' << beyond;
      pages.allow(PROT_READ);
      ASSERT_FALSE(copy(at, other.data(), size)) << size << ' ' << beyond;
      ASSERT_TRUE(copy(other.data(), at, size)) << size << ' ' << beyond;
    }
    pages.allow(PROT_NONE);
    ASSERT_TRUE(copy(pages.second() - size, other.data(), size));
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

}  // namespace
}  // namespace verbena::memory
