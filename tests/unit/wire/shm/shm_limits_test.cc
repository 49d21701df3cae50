// What rings cost, and what happens when a process can't have more.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <set>

#include "tests/unit/wire/shm/processes.h"

namespace verbena::wire::test {
namespace {

using shm::Link;
using shm::Message;
using shm::Segment;
using Kind = shm::Message::Kind;

std::size_t memory_of(const Fd& descriptor) {
  struct stat status {};
  EXPECT_EQ(::fstat(descriptor.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

/// Of the ring that `b` was offered.
std::size_t offered(const Stranger& b) {
  EXPECT_EQ(b.count(Kind::offer), 1u);
  return memory_of(b.heard.at(0).descriptors.at(Message::kSegment));
}

/// The process may have no more descriptors than it has, or `more`.
class TightDescriptors {
 public:
  explicit TightDescriptors(rlim_t more) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit tight = before_;
    const Fd first{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
    tight.rlim_cur = static_cast<rlim_t>(first.get()) + more;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  }
  ~TightDescriptors() { end(); }
  TightDescriptors(const TightDescriptors&) = delete;
  TightDescriptors& operator=(const TightDescriptors&) = delete;
  void end() const { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

TEST(ShmLimits, AThousandQueuePairsShareOneLink) {
  Process a{1};
  Stranger b{2};
  for (std::uint32_t i = 2; i < 1002; ++i) {
    ASSERT_EQ(a.wire->carriage(a.to(b.address), b.qpn(i)), Carriage::carried);
    ASSERT_EQ(a.wire->reserve(a.to(b.address), b.qpn(i), 100).size(), 100u);
    a.wire->commit();
  }
  ASSERT_TRUE(drive([&] { return !b.heard.empty(); }, a, b));
  EXPECT_EQ(offered(b), Segment::kPageBytes + Link::kRingBytes);
}

TEST(ShmLimits, SixtyFourProcessesNeedLessThan32MiBEach) {
  Process a{1};
  std::vector<std::unique_ptr<Stranger>> others;
  for (int i = 0; i < 63; ++i) others.push_back(std::make_unique<Stranger>(std::uint8_t{2}));
  for (const auto& b : others) ASSERT_EQ(a.carriage(*b), Carriage::carried);
  // Each ring is full, over and over: it would like to grow.
  for (const auto& b : others) {
    for (int tries = 0; tries < 10; ++tries) {
      while (a.send(*b, frame_for(b->qpn(), 4096, 0))) {
      }
    }
  }
  std::size_t all = 0;
  for (const auto& b : others) {
    ASSERT_TRUE(drive([&] { return !b->heard.empty(); }, *b));
    all += offered(*b);
  }
  EXPECT_GE(all, 63 * Link::kRingBytes);
  EXPECT_LT(all, 32u << 20);
}

TEST(ShmLimits, ARingThatFillsGrowsUpToItsLimit) {
  Process a{1};
  Stranger b{2};
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  std::size_t bytes = 0;
  // The ring takes what it has grown by when the cursor passes the old end, or the reader has read.
  for (int tries = 0; tries < 10; ++tries) {
    while (a.send(b, frame_for(b.qpn(), 4096, 0))) bytes += 4096;
  }
  ASSERT_TRUE(drive([&] { return !b.heard.empty(); }, b));
  EXPECT_EQ(offered(b), Segment::kPageBytes + Link::kMostRingBytes);
  EXPECT_GT(bytes, Link::kMostRingBytes * 9 / 10);
  EXPECT_LE(bytes, Link::kMostRingBytes);
}

TEST(ShmLimits, MemoryOfALinkThatWentIsFreeForOthers) {
  Process a{1};
  for (int round = 0; round < 20; ++round) {
    Stranger b{2};
    ASSERT_EQ(a.carriage(b), Carriage::carried);
    for (int tries = 0; tries < 10; ++tries) {
      while (a.send(b, frame_for(b.qpn(), 4096, 0))) {
      }
    }
    ASSERT_TRUE(drive([&] { return !b.heard.empty(); }, b));
    EXPECT_EQ(offered(b), Segment::kPageBytes + Link::kMostRingBytes) << "round " << round;
    b.registry.reset();
    ASSERT_TRUE(drive([&] { return !a.wire->in_use(); }, a));
  }
}

TEST(ShmLimits, WithoutADescriptorFramesGoAnotherWayUntilThereIsOne) {
  Process a{1};
  Stranger b{2};
  TightDescriptors tight{0};
  EXPECT_EQ(a.carriage(b), Carriage::no_memory);
  EXPECT_NE(a.wire->last_send_error(), "");
  EXPECT_FALSE(a.wire->in_use());
  // Whoever asks often doesn't make it try often.
  const auto tried = a.wire->counters().send_errors;
  const auto begun = monotonic_now();
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(a.carriage(b), Carriage::no_memory);
  const auto passed =
      std::chrono::duration_cast<std::chrono::milliseconds>(monotonic_now() - begun);
  EXPECT_LE(a.wire->counters().send_errors - tried, static_cast<std::uint64_t>(passed / 100ms) + 1);
  tight.end();
  EXPECT_TRUE(drive([&] { return a.carriage(b) == Carriage::carried; }, a, b));
  ASSERT_TRUE(drive([&] { return b.count(Kind::offer) == 1; }, a, b));
}

/// The descriptors of an offer don't arrive where there is no room for them.
TEST(ShmLimits, WhoHasNoDescriptorForAnOfferTakesALaterOne) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object";
#endif
  Process a{1}, b{2};
  // They know each other already: that takes descriptors, too.
  ASSERT_TRUE(a.registry->pass(b.slot(), kShmWire, {}, {}));
  ASSERT_TRUE(b.registry->pass(a.slot(), kShmWire, {}, {}));
  for (int i = 0; i < 4; ++i) a.turn(), b.turn();
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  {
    const TightDescriptors tight{1};
    ASSERT_TRUE(drive([&] { return a.carriage(b) == Carriage::peer_declines; }, b, a));
  }
  EXPECT_FALSE(b.wire->in_use());
  ASSERT_TRUE(drive([&] { return b.carriage(a) == Carriage::carried; }, a, b));
  ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 1)));
  EXPECT_TRUE(drive([&] { return a.sink.all.size() == 1; }, a, b));
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

/// That one offer could not be made is no reason to refuse another one.
TEST(ShmLimits, AnOfferIsTakenThoughOneOfOursFailedJustNow) {
  Process a{1};
  Stranger b{2}, c{3};
  {
    const TightDescriptors tight{0};
    ASSERT_EQ(a.carriage(b), Carriage::no_memory);
  }
  c.offer(a, 5);
  ASSERT_TRUE(drive([&] { return c.heard.size() == 1; }, a, c));
  EXPECT_EQ(c.heard[0].message.kind, Kind::offer);
}

}  // namespace
}  // namespace verbena::wire::test
