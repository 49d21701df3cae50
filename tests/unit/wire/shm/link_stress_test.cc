// Two threads as two processes, with real bells: they sleep and wake at random, and each record
// comes once, in order and whole. Made for ThreadSanitizer as well.

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "packet/packet.h"
#include "tests/support/link_pair.h"
#include "wire/shm/link.h"
#include "wire/shm/ring.h"

namespace verbena::wire::shm {
namespace {

constexpr std::uint64_t kSeeds = 4;

/// The bytes of record `n`: its number, then what follows from it.
void fill(std::span<std::uint8_t> bytes, std::uint64_t n) {
  std::memcpy(bytes.data(), &n, sizeof n);
  for (std::size_t i = sizeof n; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(n + i);
}
[[nodiscard]] bool is_record(std::span<const std::uint8_t> bytes, std::uint64_t n) {
  std::uint64_t says = 0;
  if (bytes.size() < sizeof says) return false;
  std::memcpy(&says, bytes.data(), sizeof says);
  if (says != n) return false;
  for (std::size_t i = sizeof n; i < bytes.size(); ++i) {
    if (bytes[i] != static_cast<std::uint8_t>(n + i)) return false;
  }
  return true;
}

TEST(RingStress, TwoThreadsShareARing) {
  constexpr std::uint64_t kRecords = 200'000;
  std::vector<std::array<std::uint8_t, kAlignment>> lines(1025);
  auto* const first = reinterpret_cast<std::uint8_t*>(
      (reinterpret_cast<std::uintptr_t>(lines.data()) + kAlignment - 1) / kAlignment * kAlignment);
  const std::span ring{first, 1024 * kAlignment};
  std::atomic<std::uint64_t> consumed{0};
  std::thread other{[&] {
    std::mt19937_64 random{1};
    RingWriter writer{ring, ring.size() / 4};
    for (std::uint64_t n = 0; n < kRecords;) {
      const std::size_t size = 8 + random() % 300;
      const auto rooms = writer.reserve(size, 1 + random() % 8);
      if (rooms.count == 0) {
        writer.publish();
        if (writer.consumed() == consumed.load(std::memory_order_acquire))
          std::this_thread::yield();
        ASSERT_TRUE(writer.set_consumed(consumed.load(std::memory_order_acquire)));
        if (random() % 64 == 0) writer.grow(ring.size());
        continue;
      }
      for (std::size_t i = 0; i < rooms.count && n < kRecords; ++i, ++n) {
        fill({rooms.first + i * rooms.stride, size}, n);
        writer.commit({.frame = static_cast<std::uint32_t>(size)});
      }
      if (random() % 4 == 0) writer.publish();
    }
    writer.publish();
  }};
  RingReader reader{ring};
  std::uint64_t n = 0;
  while (n < kRecords && !reader.broken()) {
    const auto record = reader.next();
    if (!record) {
      std::this_thread::yield();
      continue;
    }
    const auto frame = record->body.first(record->header.frame);
    if (!is_record(frame, n)) break;
    ++n;
    consumed.store(reader.position(), std::memory_order_release);
  }
  EXPECT_EQ(n, kRecords);
  EXPECT_FALSE(reader.broken());
  if (n < kRecords) consumed.store(~std::uint64_t{0});  // the writer's thread ends with a failure
  other.join();
}

/// One thread's end. It sends and receives, and sleeps when it can do neither.
class Worker {
 public:
  /// It sends so many records, `ahead` of what it has received at most.
  Worker(test::LinkEnd& end, std::uint64_t seed, std::uint64_t records, std::uint64_t ahead)
      : end_{end}, random_{seed}, records_{records}, ahead_{ahead} {
    flow_.source = IpAddress::v4({10, 0, 0, 1});
    flow_.destination = IpAddress::v4({10, 0, 0, 2});
  }

  void run() {
    while (good_ && (sent_ < records_ || taken_ < records_)) {
      send_some();
      const bool took = take_some();
      end_.flush();
      if (sent_ == records_ && taken_ == records_) break;
      // It may sleep as soon as nothing but the other end can help it.
      const bool waits = !may_send() || full_;
      if (waits && (!took || random_() % 16 == 0)) sleep();
    }
    end_.flush();
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }
  [[nodiscard]] bool good() const { return good_; }

 private:
  [[nodiscard]] bool may_send() const { return sent_ < records_ && sent_ < taken_ + ahead_; }
  void send_some() {
    for (std::uint64_t burst = random_() % 64; burst > 0 && may_send(); --burst) {
      const std::size_t size = 8 + (random_() % 8 == 0 ? random_() % 4096 : random_() % 100);
      const auto rooms = end_.link->reserve(flow_, size, 1 + random_() % 4);
      full_ = rooms.count == 0;
      if (full_) {
        if (end_.link->was_full() && end_.link->capacity() < Link::kMostRingBytes &&
            random_() % 512 == 0) {
          good_ = good_ && end_.link->grow(2 * end_.link->capacity());
        }
        break;
      }
      for (std::size_t i = 0; i < rooms.count && may_send(); ++i) {
        fill(rooms[i], sent_++);
        end_.link->commit();
      }
    }
  }
  bool take_some() {
    bool any = false;
    for (std::uint64_t burst = random_() % 128; burst > 0; --burst) {
      const auto d = end_.link->next();
      if (!d) break;
      good_ = good_ && is_record(d->bytes.first(d->bytes.size() - packet::kIcrcSize), taken_++);
      any = true;
    }
    good_ = good_ && !end_.link->broken() && !end_.link->closed();
    end_.link->release();
    return any;
  }
  void sleep() {
    ++sleeps_;
    if (end_.may_sleep()) {
      pollfd bell{end_.bell.get(), POLLIN, 0};
      // Nobody sleeps so long if its bell is rung.
      if (::poll(&bell, 1, 20'000) != 1) good_ = false;
    }
    // Woken: what was rung up to now is heard.
    std::uint64_t rings = 0;
    (void)!::read(end_.bell.get(), &rings, sizeof rings);
    end_.link->say_awake();
  }

  test::LinkEnd& end_;
  std::mt19937_64 random_;
  std::uint64_t records_;
  std::uint64_t ahead_;
  packet::Flow flow_{};
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t sleeps_ = 0;
  bool full_ = false;
  bool good_ = true;
};

TEST(LinkStress, TwoThreadsSendSleepAndWake) {
  constexpr std::uint64_t kRecords = 60'000;
  std::uint64_t sleeps = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    // Half of them fill their rings; the others often wait for each other.
    const std::uint64_t ahead = seed % 2 != 0 ? kRecords : 8;
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::LinkPair pair;
    Worker a{pair.a, 2 * seed, kRecords, ahead};
    Worker b{pair.b, 2 * seed + 1, kRecords, ahead};
    std::thread other{[&] { b.run(); }};
    a.run();
    other.join();
    ASSERT_TRUE(a.good());
    ASSERT_TRUE(b.good());
    EXPECT_EQ(a.taken(), kRecords);
    EXPECT_EQ(b.taken(), kRecords);
    sleeps += a.sleeps() + b.sleeps();
  }
  EXPECT_GT(sleeps, 0u);
}

}  // namespace
}  // namespace verbena::wire::shm
