// The ring and its wake-up, with the code of Ring and Link as it is: in every order of two threads,
// nothing is lost, nothing comes twice, nobody sleeps for ever, and bells are rung once a sleep.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "tests/interleaving/shadowed.h"
#include "wire/shm/link.h"

namespace verbena::interleaving {
namespace {

using wire::shm::Link;
using wire::shm::Segment;

constexpr std::size_t kA = 0, kB = 1;
constexpr std::size_t kShort = 300;    // made in the ring: the memory model sees it
constexpr std::size_t kLong = 60'000;  // four of them fill a ring

packet::Flow flow() {
  return {.source = IpAddress::v4({10, 0, 0, 1}), .destination = IpAddress::v4({10, 0, 0, 2})};
}

Fd number(std::size_t thread) { return Fd{kBells + static_cast<int>(thread)}; }

/// A process with its link; what its NIC thread does.
class End {
 public:
  explicit End(std::size_t self)
      : self_{self},
        link_{std::make_unique<Link>(1, 1, Segment::map(number(self)).value())},
        links_{link_.get()} {
    link_->complete(2, Segment::map(number(1 - self)).value(), number(1 - self));
  }

  /// False: the ring is full.
  bool send(std::size_t size = kShort) {
    const auto rooms = link_->reserve(flow(), size, 1);
    if (rooms.count == 0) return false;
    Explorer::current().write(line_of(rooms[0].data() + size - 4));
    rooms[0].front() = static_cast<std::uint8_t>(sent_++);
    link_->commit();
    return true;
  }
  void flush() { wire::shm::flush(links_); }
  void send_all(unsigned frames, std::size_t size = kShort) {
    for (unsigned i = 0; i < frames; ++i) {
      while (!send(size)) {
        flush();
        rest();
      }
      flush();
    }
  }
  void take(unsigned most = ~0u) {
    for (unsigned i = 0; i < most; ++i) {
      const auto d = link_->next();
      if (!d) break;
      Explorer::current().read(line_of(d->bytes.data() + d->bytes.size() - 8));
      if (d->bytes.front() != static_cast<std::uint8_t>(taken_)) {
        Explorer::current().fail("record " + std::to_string(taken_) + " is another one");
      }
      ++taken_;
    }
    if (link_->broken()) Explorer::current().fail("the ring is broken");
    link_->release();
    flush();
  }
  void take_until(unsigned all) {
    for (;;) {
      take();
      if (taken_ >= all || link_->broken()) return;
      rest();
    }
  }
  /// Sleeps, if there is nothing to do.
  void rest() {
    if (fall_asleep()) Explorer::current().wait();
    wake();
  }
  [[nodiscard]] bool fall_asleep() {
    ++sleeps_;
    return wire::shm::may_sleep(links_);
  }
  void wake() { link_->say_awake(); }

  void check(unsigned taken) const {
    Explorer& explorer = Explorer::current();
    if (taken_ != taken) explorer.fail("not all records came: " + std::to_string(taken_));
    if (explorer.rings(self_) > sleeps_) explorer.fail("the bell was rung twice in a sleep");
  }

 private:
  std::size_t self_;
  std::unique_ptr<Link> link_;
  std::array<Link*, 1> links_;
  unsigned sent_ = 0;
  unsigned taken_ = 0;
  unsigned sleeps_ = 0;
};

/// Two ends, made anew for each execution.
struct Scenario {
  std::function<void(End&, End&)> prepare = [](End&, End&) {};
  std::function<void(End&)> a;
  std::function<void(End&)> b;
  unsigned taken_by_a = 0;
  unsigned taken_by_b = 0;
};

std::optional<Finding> explore(const Scenario& s, const Weakness& weakness,
                               std::uint64_t* executions = nullptr) {
  std::optional<End> a, b;
  const Explorer::Program program{.prepare =
                                      [&] {
                                        Explorer::current().be(kA);
                                        a.emplace(kA);
                                        a->flush();
                                        Explorer::current().be(kB);
                                        b.emplace(kB);
                                        b->flush();
                                        s.prepare(*a, *b);
                                      },
                                  .threads = {[&] { s.a(*a); }, [&] { s.b(*b); }},
                                  .check =
                                      [&] {
                                        a->check(s.taken_by_a);
                                        b->check(s.taken_by_b);
                                      }};
  Explorer explorer{weakness};
  auto finding = explorer.explore(program);
  if (executions != nullptr) *executions = explorer.executions();
  return finding;
}

/// Whose accesses follow, in prepare().
End& as(std::size_t thread, End& end) {
  Explorer::current().be(thread);
  return end;
}

/// Fills the ring from A to B with four records; B has taken none of them.
void fill(End& a, End&) {
  while (as(kA, a).send(kLong)) {
  }
  a.flush();
}

/// The same, and A doesn't know yet that it is full.
void fill_unawares(End& a, End&) {
  for (int i = 0; i < 4; ++i) (void)as(kA, a).send(kLong);
  a.flush();
}

Scenario one_sends() {
  return {
      .a = [](End& a) { a.send_all(2); }, .b = [](End& b) { b.take_until(2); }, .taken_by_b = 2};
}

Scenario two_at_once() {
  return {.a =
              [](End& a) {
                (void)a.send();
                (void)a.send();
                a.flush();
                a.send_all(1);
              },
          .b = [](End& b) { b.take_until(3); },
          .taken_by_b = 3};
}

Scenario ping_pong() {
  return {.a =
              [](End& a) {
                a.send_all(1);
                a.take_until(1);
              },
          .b =
              [](End& b) {
                b.take_until(1);
                b.send_all(1);
              },
          .taken_by_a = 1,
          .taken_by_b = 1};
}

/// The writer has to wait for room, and then overwrites what was read.
Scenario starved() {
  return {.prepare = fill,
          .a = [](End& a) { a.send_all(1, kLong); },
          .b = [](End& b) { b.take_until(5); },
          .taken_by_b = 5};
}

/// The reader makes room bit by bit and then sleeps: nobody may sleep while the other waits.
Scenario starved_bit_by_bit() {
  return {.prepare = fill,
          .a = [](End& a) { a.send_all(1, kLong); },
          .b =
              [](End& b) {
                b.take(1);
                b.take_until(5);
              },
          .taken_by_b = 5};
}

/// A thread of the program fills the ring while the NIC thread sleeps.
Scenario starved_asleep() {
  return {.prepare = fill_unawares,
          .a =
              [](End& a) {
                const bool asleep = a.fall_asleep();
                bool sent = a.send(kLong);
                a.flush();
                if (asleep && !sent) Explorer::current().wait();
                a.wake();
                if (!sent) a.send_all(1, kLong);
              },
          .b = [](End& b) { b.take_until(5); },
          .taken_by_b = 5};
}

struct Named {
  const char* name;
  Scenario (*scenario)();
};

class Interleaving : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer doesn't know fibers";
#endif
  }
};

TEST_P(Interleaving, NothingIsLost) {
  std::uint64_t executions = 0;
  const auto finding = explore(GetParam().scenario(), {}, &executions);
  RecordProperty("executions", std::to_string(executions));
  std::printf("%llu executions\n", static_cast<unsigned long long>(executions));
  if (!finding) return;
  std::string steps;
  for (const auto& step : finding->steps) steps += "\n  " + step;
  FAIL() << finding->what << " after" << steps;
}

INSTANTIATE_TEST_SUITE_P(Link, Interleaving,
                         testing::Values(Named{"OneSends", one_sends},
                                         Named{"TwoAtOnce", two_at_once},
                                         Named{"PingPong", ping_pong}, Named{"Starved", starved},
                                         Named{"StarvedBitByBit", starved_bit_by_bit},
                                         Named{"StarvedAsleep", starved_asleep}),
                         [](const auto& p) { return p.param.name; });

// ---- the check itself

using InterleavingCheck = Interleaving;

TEST_P(InterleavingCheck, MissesTheFences) {
  const auto finding = explore(GetParam().scenario(), {.fences = true});
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->what, "a thread waits for ever");
}

TEST_P(InterleavingCheck, MissesRelease) {
  EXPECT_TRUE(explore(GetParam().scenario(), {.releases = true}));
}

TEST_P(InterleavingCheck, MissesAcquire) {
  EXPECT_TRUE(explore(GetParam().scenario(), {.acquires = true}));
}

INSTANTIATE_TEST_SUITE_P(Link, InterleavingCheck,
                         testing::Values(Named{"OneSends", one_sends}, Named{"Starved", starved}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace verbena::interleaving
