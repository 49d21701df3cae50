// The faults alone: virtual time, seeds, frames that carry their number.

#include "wire/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "packet/icrc.h"

namespace verbena::wire {
namespace {

using namespace std::chrono_literals;
using settings::FaultSpec;
using testing::ElementsAre;

constexpr std::size_t kNumber = 12;  // its offset, behind the BTH

packet::Flow flow_of(std::uint16_t port) {
  return {.source = IpAddress::v4({10, 0, 0, 1}),
          .destination = IpAddress::v4({10, 0, 0, 2}),
          .source_port = port};
}

Faults::Frame frame_of(std::uint32_t number, std::uint16_t port = 0xC000) {
  Faults::Frame frame{flow_of(port), Qpn{}, std::vector<std::uint8_t>(64)};
  store_be32(&frame.bytes[kNumber], number);
  const auto crc = packet::icrc({.source = frame.flow.source,
                                 .destination = frame.flow.destination,
                                 .source_port = port,
                                 .destination_port = packet::kRocePort},
                                std::span{frame.bytes}.first(60));
  packet::store_icrc(&frame.bytes[60], crc);
  return frame;
}

bool intact(const Faults::Frame& frame) {
  return packet::recover_identification({.source = frame.flow.source,
                                         .destination = frame.flow.destination,
                                         .source_port = frame.flow.source_port,
                                         .destination_port = packet::kRocePort},
                                        std::span{frame.bytes}.first(60),
                                        packet::load_icrc(&frame.bytes[60]))
      .has_value();
}

struct Arrival {
  std::uint32_t number;
  Instant when;
  bool intact;
};

/// A line that is fed one frame at a time, and looked at whenever it asks to be.
class Line {
 public:
  explicit Line(const FaultSpec& spec) : faults_{spec} {}

  void send(std::uint32_t number, std::uint16_t port = 0xC000) {
    faults_.admit(frame_of(number, port), now);
    collect();
  }
  void send_all(std::uint32_t count, Duration every) {
    for (std::uint32_t i = 0; i < count; ++i) {
      send(i);
      advance(every);
    }
    drain();
  }
  void advance(Duration d) {
    const Instant end = now + d;
    while (faults_.next_deadline() <= end) {
      now = std::max(now, faults_.next_deadline());
      collect();
    }
    now = end;
  }
  void drain() {
    while (faults_.next_deadline() != kNever) advance(faults_.next_deadline() - now);
  }
  [[nodiscard]] std::vector<std::uint32_t> numbers() const {
    std::vector<std::uint32_t> all;
    for (const Arrival& a : arrivals) all.push_back(a.number);
    return all;
  }
  [[nodiscard]] const Faults& faults() const { return faults_; }
  void observe(Observer* observer) { faults_.observe(observer); }

  Instant now{1s};
  std::vector<Arrival> arrivals;

 private:
  void collect() {
    while (const Faults::Frame* frame = faults_.due(now)) {
      arrivals.push_back({load_be32(&frame->bytes[kNumber]), now, intact(*frame)});
      faults_.pop();
    }
  }

  Faults faults_;
};

/// Of `count` tries with chance p, five standard deviations: a sound generator fails once in a
/// million seeds, and the seed is fixed.
void expect_share(std::uint64_t seen, std::uint32_t count, double p) {
  const double deviation = std::sqrt(count * p * (1 - p));
  EXPECT_NEAR(static_cast<double>(seen), count * p, 5 * deviation);
  EXPECT_GT(seen, 0u);
}

constexpr std::uint32_t kFrames = 100'000;

TEST(Faults, WithoutAnyEverythingArrivesAtOnceAndInOrder) {
  Line line{{}};
  line.send_all(100, 0ns);
  ASSERT_EQ(line.arrivals.size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(line.numbers()));
  EXPECT_EQ(line.arrivals.back().when, Instant{1s});
}

/// Which fault struck which frame.
struct Strikes final : Observer {
  void dropped(std::string_view, const packet::Datagram&) override {}
  void struck(Fault what, std::span<const std::uint8_t> frame) override {
    all[what].push_back(load_be32(&frame[kNumber]));
  }

  std::map<Fault, std::vector<std::uint32_t>> all;
};

TEST(Faults, TheObserverIsToldOfEachAndSeesTheFrameAsItWas) {
  Strikes strikes;
  Line line{{.drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .corrupt = 0.1}};
  line.observe(&strikes);
  constexpr std::uint32_t kFew = 1000;
  line.send_all(kFew, 1us);
  const FaultCounters& counters = line.faults().counters();
  EXPECT_EQ(strikes.all[Fault::drop].size(), counters.dropped);
  EXPECT_EQ(strikes.all[Fault::duplicate].size(), counters.duplicated);
  EXPECT_EQ(strikes.all[Fault::reorder].size(), counters.reordered);
  EXPECT_EQ(strikes.all[Fault::corrupt].size(), counters.corrupted);
  std::set<std::uint32_t> lost;
  for (std::uint32_t i = 0; i < kFew; ++i) lost.insert(i);
  for (const Arrival& a : line.arrivals) {
    if (a.intact) lost.erase(a.number);
  }
  std::set<std::uint32_t> told;
  for (const Fault what : {Fault::drop, Fault::corrupt}) {
    told.insert(strikes.all[what].begin(), strikes.all[what].end());
  }
  EXPECT_EQ(told, lost);
}

TEST(Faults, DropsTheShareAskedFor) {
  Line line{{.drop = 0.01}};
  line.send_all(kFrames, 1us);
  expect_share(kFrames - line.arrivals.size(), kFrames, 0.01);
  EXPECT_EQ(line.faults().counters().dropped, kFrames - line.arrivals.size());
  EXPECT_TRUE(std::ranges::is_sorted(line.numbers()));
}

TEST(Faults, DropsAllOrNothingWhenAskedTo) {
  Line all{{.drop = 1}};
  all.send_all(1000, 1us);
  EXPECT_TRUE(all.arrivals.empty());
}

TEST(Faults, DuplicatesFollowTheirOriginal) {
  Line line{{.duplicate = 0.02}};
  line.send_all(kFrames, 1us);
  expect_share(line.arrivals.size() - kFrames, kFrames, 0.02);
  EXPECT_TRUE(std::ranges::is_sorted(line.numbers()));
}

TEST(Faults, CorruptedFramesFailTheirChecksum) {
  Line line{{.corrupt = 0.05}};
  line.send_all(kFrames, 1us);
  ASSERT_EQ(line.arrivals.size(), kFrames);
  const auto damaged = std::ranges::count(line.arrivals, false, &Arrival::intact);
  expect_share(static_cast<std::uint64_t>(damaged), kFrames, 0.05);
  EXPECT_EQ(line.faults().counters().corrupted, static_cast<std::uint64_t>(damaged));
}

TEST(Faults, ReorderedFramesAreOvertakenByAFewOfTheirFlow) {
  Line line{{.reorder = 0.02}};
  line.send_all(kFrames, 1us);
  ASSERT_EQ(line.arrivals.size(), kFrames);
  expect_share(line.faults().counters().reordered, kFrames, 0.02);
  std::uint64_t late = 0;
  std::uint32_t highest = 0;
  for (const std::uint32_t number : line.numbers()) {
    if (number < highest) {
      ++late;
      // Others that are late, too, may be between.
      EXPECT_LE(highest - number, 2 * Faults::kMaxOvertakers + 4);
    }
    highest = std::max(highest, number);
  }
  EXPECT_GT(late, line.faults().counters().reordered * 9 / 10);
}

TEST(Faults, AFrameThatNobodyOvertakesGoesOnAllTheSame) {
  Line line{{.reorder = 1}};
  line.send(0);
  line.advance(Faults::kMaxHold - 1ns);
  EXPECT_TRUE(line.arrivals.empty());
  line.advance(1ns);
  EXPECT_THAT(line.numbers(), ElementsAre(0u));
}

TEST(Faults, OtherFlowsDontOvertake) {
  // Of seed 3, some frame of the first hundred is held back.
  Line line{{.reorder = 0.1, .seed = 3}};
  std::uint32_t sent = 0;
  while (line.faults().counters().reordered == 0) line.send(sent++);
  const auto arrived = line.arrivals.size();
  const std::uint32_t late = sent - 1;
  for (std::uint32_t i = 0; i < 20; ++i) line.send(1000 + i, 0xC001);
  EXPECT_GT(line.arrivals.size(), arrived);
  EXPECT_THAT(line.numbers(), testing::Not(testing::Contains(late)));
  line.drain();
  EXPECT_THAT(line.numbers(), testing::Contains(late));
}

TEST(Faults, DelayIsExactWithoutJitter) {
  Line line{{.delay = 2ms}};
  line.send(0);
  line.advance(1ms);
  line.send(1);
  EXPECT_EQ(line.faults().next_deadline(), Instant{1s} + 2ms);
  EXPECT_EQ(line.faults().empty_at(), Instant{1s} + 3ms);
  line.drain();
  ASSERT_EQ(line.arrivals.size(), 2u);
  EXPECT_EQ(line.arrivals[0].when, Instant{1s} + 2ms);
  EXPECT_EQ(line.arrivals[1].when, Instant{1s} + 3ms);
  EXPECT_EQ(line.faults().empty_at(), Instant{});
}

TEST(Faults, JitterStaysInItsBoundsAndKeepsTheOrder) {
  Line line{{.delay = 2ms, .jitter = 500us}};
  constexpr auto kEvery = 100us;  // closer than the jitter: frames would overtake each other
  line.send_all(10'000, kEvery);
  ASSERT_EQ(line.arrivals.size(), 10'000u);
  Duration shortest = 1s;
  Duration longest{};
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    EXPECT_EQ(line.arrivals[i].number, i);
    const Duration took = line.arrivals[i].when - (Instant{1s} + i * kEvery);
    shortest = std::min(shortest, took);
    longest = std::max(longest, took);
  }
  EXPECT_GE(shortest, 1500us);
  EXPECT_LT(shortest, 1700us);
  EXPECT_LE(longest, 2500us);
  EXPECT_GT(longest, 2400us);
}

TEST(Faults, TheRateIsThatOfTheWholePacket) {
  Line line{{.rate = 1e6}};
  for (std::uint32_t i = 0; i < 10; ++i) line.send(i);
  line.drain();
  // 64 bytes, and 28 of IP and UDP.
  EXPECT_EQ(line.arrivals.back().when, Instant{1s} + 10 * 92 * 8us);
  EXPECT_EQ(line.arrivals[4].when, Instant{1s} + 5 * 92 * 8us);
}

TEST(Faults, ABusyLineTakesNothingMore) {
  Line line{{.rate = 1e6}};
  std::uint32_t sent = 0;
  while (!line.faults().full(line.now)) line.send(sent++);
  EXPECT_EQ(sent, 3u);  // the third ends 2.2 ms from now
  line.advance(1ms);
  EXPECT_FALSE(line.faults().full(line.now));
}

TEST(Faults, TheSameSeedHasTheSameFate) {
  const auto fate = [](std::uint64_t seed) {
    Line line{{.drop = 0.1, .duplicate = 0.1, .reorder = 0.1, .seed = seed}};
    line.send_all(1000, 1us);
    return line.numbers();
  };
  EXPECT_EQ(fate(7), fate(7));
  EXPECT_NE(fate(7), fate(8));
}

TEST(Faults, WhatHappensToOneFrameDoesntChangeTheOthersFate) {
  const auto dropped = [](const FaultSpec& spec) {
    Line line{spec};
    line.send_all(10'000, 1us);
    std::map<std::uint32_t, bool> arrived;
    for (const Arrival& a : line.arrivals) {
      if (a.intact) arrived[a.number] = true;
    }
    std::vector<std::uint32_t> lost;
    for (std::uint32_t i = 0; i < 10'000; ++i) {
      if (!arrived.contains(i)) lost.push_back(i);
    }
    return lost;
  };
  EXPECT_EQ(dropped({.drop = 0.05}),
            dropped({.drop = 0.05, .duplicate = 0.1, .reorder = 0.1, .delay = 1ms, .jitter = 1ms}));
}

TEST(Faults, WhetherAFrameIsDroppedSaysNothingAboutItsDelay) {
  int early = 0, passed = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Faults faults{FaultSpec{.drop = 0.5, .delay = 10ms, .jitter = 10ms, .seed = seed}};
    faults.admit(frame_of(1), Instant{});
    if (faults.counters().dropped != 0) continue;
    ++passed;
    if (faults.next_deadline() < Instant{} + 10ms) ++early;
  }
  EXPECT_GT(early, passed / 4) << "of " << passed;
  EXPECT_LT(early, 3 * passed / 4) << "of " << passed;
}

TEST(Faults, WhatIsHeldBackStillHasToPassASlowLine) {
  Faults faults{FaultSpec{.reorder = 1, .rate = 8e3}};  // a byte each millisecond
  faults.admit(frame_of(1), Instant{});
  faults.admit(frame_of(2), Instant{});
  const Instant last = faults.empty_at();
  EXPECT_GT(last, Instant{} + 2 * 64ms);
  int left = 0;
  for (Instant now{}; now <= last; now += 1ms) {
    for (; faults.due(now) != nullptr; faults.pop()) ++left;
  }
  EXPECT_EQ(left, 2) << "when it said that nothing would be there any more";
}

}  // namespace
}  // namespace verbena::wire
