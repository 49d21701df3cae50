// Memory that two processes share: who can do what with it, and what is not taken for it.

#include "wire/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "wire/shm/ring.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace verbena::wire::shm {
namespace {

constexpr std::size_t kRing = 256u << 10;

Segment::Made made() {
  auto m = Segment::create(kRing);
  EXPECT_TRUE(m.ok()) << m.error().message;
  return std::move(m).value();
}

std::size_t memory_of(const Fd& descriptor) {
  struct stat status {};
  EXPECT_EQ(::fstat(descriptor.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Segment, ShowsTheOtherProcessWhatIsWritten) {
  const auto m = made();
  const auto other = Segment::map(m.descriptor);
  ASSERT_TRUE(other.ok());
  EXPECT_NE(other->ring().data(), m.segment.ring().data());
  EXPECT_EQ(other->ring().size(), Segment::kRingBytes);
  EXPECT_EQ(other->page().sleep.load(), 0u);
  std::memcpy(m.segment.ring().data() + 1000, "bytes", 5);
  m.segment.page().consumed.store(77);
  EXPECT_EQ(std::memcmp(other->ring().data() + 1000, "bytes", 5), 0);
  EXPECT_EQ(other->page().consumed.load(), 77u);
}

TEST(Segment, BeginsAsZerosAtAnAlignedPlace) {
  const auto m = made();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.segment.ring().data()) % kAlignment, 0u);
  for (const std::uint8_t byte : m.segment.ring().first(kRing)) ASSERT_EQ(byte, 0);
}

TEST(Segment, HasAllTheMemoryThatWasAskedForAndNoMore) {
  const auto m = made();
  EXPECT_EQ(memory_of(m.descriptor), Segment::kPageBytes + kRing);
  ASSERT_TRUE(m.segment.allocate(2 * kRing));
  EXPECT_EQ(memory_of(m.descriptor), Segment::kPageBytes + 2 * kRing);
}

TEST(Segment, CanNotBeResizedOrWrittenByWhoeverGetsIt) {
  const auto m = made();
  EXPECT_EQ(::ftruncate(m.descriptor.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(m.descriptor.get(), 2 * Segment::kBytes), -1);
  void* const writable =
      ::mmap(nullptr, Segment::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, m.descriptor.get(), 0);
  EXPECT_EQ(writable, MAP_FAILED);
  const auto other = Segment::map(m.descriptor);
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(::mprotect(&other->page(), Segment::kPageBytes, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(::fcntl(m.descriptor.get(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "the seals are sealed";
}

TEST(Segment, IsNotInAForksChild) {
  const auto m = made();
  const auto other = Segment::map(m.descriptor);
  ASSERT_TRUE(other.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char there = 0;
    const bool gone = ::mincore(&m.segment.page(), 4096, &there) != 0 && errno == ENOMEM &&
                      ::mincore(&other->page(), 4096, &there) != 0 && errno == ENOMEM;
    ::_exit(gone ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Segment, GoesWithItsOwner) {
  auto m = made();
  void* const page = &m.segment.page();
  Segment moved{std::move(m.segment)};
  EXPECT_FALSE(m.segment);  // NOLINT(bugprone-use-after-move)
  unsigned char there = 0;
  EXPECT_EQ(::mincore(page, 4096, &there), 0);
  moved = Segment{};
  Segment{std::move(moved)};
  EXPECT_FALSE(moved);  // NOLINT(bugprone-use-after-move)
}

TEST(Segment, AbandonedIsLeftAlone) {
  auto m = made();
  void* const page = &m.segment.page();
  m.segment.abandon();
  m.segment = Segment{};
  unsigned char there = 0;
  EXPECT_EQ(::mincore(page, 4096, &there), 0) << "unmapped";
  ::munmap(page, Segment::kBytes);
}

// ---- what is refused

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

Fd memfd(off_t size, int seals) {
  Fd fd{::memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_TRUE(fd);
  EXPECT_EQ(::ftruncate(fd.get(), size), 0);
  EXPECT_TRUE(seals == 0 || ::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

void expect_refused(const Fd& descriptor) {
  const auto mapped = Segment::map(descriptor);
  ASSERT_FALSE(mapped.ok());
  EXPECT_EQ(mapped.error().code, EPROTO);
}

TEST(Segment, OfAnotherProcessHasAllSeals) {
  constexpr auto kSize = static_cast<off_t>(Segment::kBytes);
  EXPECT_TRUE(Segment::map(memfd(kSize, kSeals)).ok());
  EXPECT_TRUE(Segment::map(memfd(kSize, kSeals | F_SEAL_WRITE)).ok()) << "more do no harm";
  expect_refused(memfd(kSize, 0));
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL}) {
    expect_refused(memfd(kSize, kSeals & ~missing));
  }
}

TEST(Segment, OfAnotherProcessHasTheRightSize) {
  constexpr auto kSize = static_cast<off_t>(Segment::kBytes);
  for (const off_t size : {off_t{0}, off_t{4096}, kSize - 1, kSize + 1, 2 * kSize}) {
    expect_refused(memfd(size, kSeals));
  }
}

TEST(Segment, OfAnotherProcessIsAMemfd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  const Fd out{ends[1]};
  expect_refused(in);
  expect_refused(out);
  expect_refused(Fd{::open("/dev/zero", O_RDWR | O_CLOEXEC)});
  expect_refused(Fd{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)});
  expect_refused(Fd{});
}

}  // namespace
}  // namespace verbena::wire::shm
