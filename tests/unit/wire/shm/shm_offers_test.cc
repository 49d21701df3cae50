// What a stranger can say to a wire of rings, and what it costs it: offers, refusals, contents.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <tuple>

#include "tests/unit/wire/shm/processes.h"

namespace verbena::wire::test {
namespace {

using shm::Link;
using shm::Message;
using shm::RecordHeader;
using shm::Segment;
using Kind = shm::Message::Kind;

struct Offers : testing::Test {
  Process a{1};
  Stranger b{2};

  /// A message of b's that comes after all others, and is answered.
  void settle() {
    const std::size_t before = b.count(Kind::refusal);
    ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 0xffff}));  // without descriptors
    ASSERT_TRUE(drive([&] { return b.count(Kind::refusal) > before; }, a, b));
  }
};

TEST_F(Offers, AnOfferIsAnsweredByAnOffer) {
  b.offer(a, 5);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  EXPECT_EQ(b.heard[0].message.kind, Kind::offer);
  EXPECT_EQ(b.heard[0].message.slot, a.slot());
  EXPECT_EQ(b.heard[0].message.answers, 5u);
  ASSERT_EQ(b.heard[0].descriptors.size(), std::size_t{Message::kDescriptors});
  EXPECT_TRUE(Segment::map(b.heard[0].descriptors[Message::kSegment]).ok());
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 1));
  a.turn();
  ASSERT_EQ(a.sink.all.size(), 1u);
  EXPECT_EQ(a.sink.all[0].frame, frame_for(a.qpn(), 100, 1));
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

TEST_F(Offers, WithoutDescriptorsAreRefused) {
  ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 7}));
  ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 8}, {b.bell.get()}));
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, a, b));
  for (const auto& h : b.heard) EXPECT_EQ(h.message.kind, Kind::refusal);
  EXPECT_EQ(b.heard[0].message.link, 7u);
  EXPECT_FALSE(a.wire->in_use());
  EXPECT_NE(a.wire->last_send_error().find("descriptor"), std::string::npos);
}

TEST_F(Offers, OfWhatIsNoSegmentAreRefused) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  const Fd out{ends[1]};
  const Fd unsealed{::memfd_create("verbena-test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(Segment::kBytes)), 0);
  std::size_t answers = 0;
  for (const int fd : {in.get(), unsealed.get(), b.bell.get()}) {
    ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 7}, {fd, b.bell.get()}));
    ASSERT_TRUE(drive([&] { return b.heard.size() > answers; }, a, b));
    EXPECT_EQ(b.heard[answers++].message.kind, Kind::refusal);
  }
  EXPECT_FALSE(a.wire->in_use());
}

/// A write to it could wait for ever, or end the program by SIGPIPE.
TEST_F(Offers, WithABellThatIsNoneAreRefused) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  const Fd out{ends[1]};
  auto made = Segment::create(Link::kRingBytes);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 7}, {made->descriptor.get(), out.get()}));
  ASSERT_TRUE(
      b.say(a, {Kind::offer, b.slot(), 8}, {made->descriptor.get(), made->descriptor.get()}));
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, a, b));
  for (const auto& h : b.heard) EXPECT_EQ(h.message.kind, Kind::refusal);
  EXPECT_FALSE(a.wire->in_use());
}

TEST_F(Offers, OfAnotherSlotAreIgnored) {
  const Process c{3};
  for (const std::uint32_t slot : {0u, a.slot(), c.slot(), std::uint32_t{Qpn::kSlots}, ~0u}) {
    auto made = Segment::create(Link::kRingBytes);
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(b.say(a, {Kind::offer, slot, 7}, {made->descriptor.get(), b.bell.get()}));
  }
  ASSERT_NO_FATAL_FAILURE(settle());
  EXPECT_FALSE(a.wire->in_use());
  EXPECT_EQ(b.heard.size(), 1u) << "the answer to the last message alone";
}

TEST_F(Offers, ThatAreMalformedAreIgnored) {
  const Message offer{Kind::offer, b.slot(), 7};
  for (const std::size_t size : {0u, 1u, 15u}) {
    ASSERT_TRUE(b.registry->pass(a.slot(), kShmWire, offer.bytes().first(size), {}));
  }
  ASSERT_TRUE(b.registry->pass(a.slot(), kShmWire, offer.bytes(), offer.bytes()));
  ASSERT_NO_FATAL_FAILURE(settle());
  EXPECT_FALSE(a.wire->in_use());
  EXPECT_EQ(b.heard.size(), 1u);
}

TEST_F(Offers, OfUnknownKindsDoNothing) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  for (const std::uint32_t kind : {0u, 3u, ~0u}) {
    ASSERT_TRUE(b.say(a, {static_cast<Kind>(kind), b.slot(), b.heard[0].message.link, 0}));
  }
  ASSERT_TRUE(b.say(a, {Kind::refusal, b.slot(), b.heard[0].message.link + 1}));
  a.turn();
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

TEST_F(Offers, ARefusalSendsTheFramesAnotherWay) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  ASSERT_TRUE(b.say(a, {Kind::refusal, b.slot(), b.heard[0].message.link}));
  ASSERT_TRUE(drive([&] { return a.carriage(b) == Carriage::peer_declines; }, a));
  EXPECT_THAT(a.sink.lost, testing::ElementsAre(b.slot()));
  EXPECT_TRUE(a.send(b, frame_for(b.qpn(), 100, 0))) << "lost, not held back";
  a.turn();
}

/// Offers may cross: b refuses a's when a has taken b's already.
TEST_F(Offers, ARefusalEndsACompleteLinkToo) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  b.offer(a, 5);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  const std::uint64_t id = b.heard[0].message.link;
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 1));
  a.turn();
  ASSERT_EQ(a.sink.all.size(), 1u) << "it is complete";
  ASSERT_TRUE(b.say(a, {Kind::refusal, b.slot(), id}));
  ASSERT_TRUE(drive([&] { return b.count(Kind::refusal) == 1; }, a, b));
  EXPECT_EQ(b.heard.back().message.link, 5u) << "b drops its end, too";
  EXPECT_EQ(a.carriage(b), Carriage::peer_declines);
  EXPECT_THAT(a.sink.lost, testing::ElementsAre(b.slot()));
}

TEST_F(Offers, WhatCanNotBeTakenEndsTheOwnOfferToo) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(b.say(a, {Kind::offer, b.slot(), 7}));  // descriptors were missing
  ASSERT_TRUE(drive([&] { return b.count(Kind::refusal) == 1; }, a, b));
  EXPECT_EQ(a.carriage(b), Carriage::no_memory) << "at this end";
  EXPECT_EQ(a.wire->counters().send_errors, 1u);
  EXPECT_THAT(a.sink.lost, testing::ElementsAre(b.slot()));
}

/// It lacked a descriptor, perhaps: it may come back to it.
TEST_F(Offers, WhoRefusedMayOfferLater) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  ASSERT_TRUE(b.say(a, {Kind::refusal, b.slot(), b.heard[0].message.link}));
  ASSERT_TRUE(drive([&] { return a.carriage(b) == Carriage::peer_declines; }, a));
  b.offer(a, 9);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, a, b));
  EXPECT_EQ(b.heard[1].message.kind, Kind::offer);
  EXPECT_EQ(a.carriage(b), Carriage::carried);
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 1));
  a.turn();
  EXPECT_EQ(a.sink.all.size(), 1u);
}

TEST_F(Offers, WhoRefusedIsAskedAgainLaterButNotAtOnce) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  ASSERT_TRUE(b.say(a, {Kind::refusal, b.slot(), b.heard[0].message.link}));
  ASSERT_TRUE(drive([&] { return a.carriage(b) == Carriage::peer_declines; }, a));
  for (int i = 0; i < 1000; ++i) (void)a.carriage(b);
  b.turn();
  EXPECT_LE(b.heard.size(), 2u);
  ASSERT_TRUE(drive(
      [&] {
        EXPECT_EQ(a.carriage(b), Carriage::peer_declines) << "it hasn't accepted";
        return b.heard.size() == 2;
      },
      a, b));
  EXPECT_EQ(b.heard[1].message.kind, Kind::offer);
  b.offer(a, 5, b.heard[1].message.link);
  EXPECT_TRUE(drive([&] { return a.carriage(b) == Carriage::carried; }, a, b));
}

TEST_F(Offers, AnAnswerIsNotAnsweredByAnOffer) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  const std::uint64_t id = b.heard[0].message.link;
  EXPECT_EQ(b.heard[0].message.answers, 0u);
  b.offer(a, 5, id);
  ASSERT_TRUE(drive([&] { return a.wire->drained(b.slot()); }, a));
  b.offer(a, 6, id);      // once more
  b.offer(a, 7, id + 1);  // to what was never offered, or is long gone
  ASSERT_TRUE(drive([&] { return b.heard.size() == 3; }, a, b));
  EXPECT_EQ(b.count(Kind::refusal), 2u);
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

/// Both may ask at any time, and each hears of the other late.
TEST(Conversation, EndsWithOneLinkWhateverTheOrder) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random{seed};
    Process a{1};
    Process b{2};
    for (int step = 0; step < 6; ++step) {
      Process& one = random() % 2 == 0 ? a : b;
      Process& other = &one == &a ? b : a;
      if (random() % 2 == 0) {
        ASSERT_EQ(one.carriage(other), Carriage::carried);
        ASSERT_TRUE(one.send(other, frame_for(other.qpn(), 100, 1)));
      } else {
        one.serve();
      }
    }
    ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 2)));
    ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 3)));
    ASSERT_EQ(a.carriage(b), Carriage::carried);
    ASSERT_EQ(b.carriage(a), Carriage::carried);
    const auto arrived = [](const Process& p) { return !p.sink.all.empty(); };
    ASSERT_TRUE(a.send(b, frame_for(b.qpn(), 100, 4)));
    ASSERT_TRUE(b.send(a, frame_for(a.qpn(), 100, 5)));
    ASSERT_TRUE(drive([&] { return arrived(a) && arrived(b); }, a, b)) << seed;
    EXPECT_TRUE(a.sink.lost.empty() && b.sink.lost.empty()) << seed;
  }
}

/// The slot has another process now, as far as one can see: it begins with a ring of its own.
TEST_F(Offers, ASecondOneReplacesTheFirst) {
  b.offer(a, 1);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 1));
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 2));
  b.offer(a, 2);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, a, b));
  EXPECT_EQ(a.sink.all.size(), 2u) << "what the first one published is taken";
  EXPECT_NE(b.heard[1].message.link, b.heard[0].message.link);
  b.publish(b.address, a.address, frame_for(a.qpn(), 100, 3));
  a.turn();
  ASSERT_EQ(a.sink.all.size(), 3u);
  EXPECT_EQ(a.sink.all[2].frame, frame_for(a.qpn(), 100, 3));
  EXPECT_EQ(a.carriage(b), Carriage::carried);
}

TEST_F(Offers, ASecondOneEndsEvenIfTheFirstRingHasNoEnd) {
  b.offer(a, 1);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  Segment first = std::exchange(b.segment, Segment{});
  b.offer(a, 2);
  std::swap(b.segment, first);
  b.publish_for_ever(a.address, frame_for(a.qpn(), 100, 0));
  a.serve();
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, b));
}

TEST_F(Offers, ADeadProcessRingEndsEvenIfItHasNoEnd) {
  b.offer(a, 1);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  b.publish_for_ever(a.address, frame_for(a.qpn(), 100, 0));
  b.registry.reset();
  EXPECT_TRUE(drive([&] { return !a.wire->in_use(); }, a));
}

/// It died before it answered; its slot has another process, which offers.
TEST_F(Offers, TheNextProcessOfASlotIsNotTakenForTheDeadOne) {
  ASSERT_EQ(a.carriage(b), Carriage::carried);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  // Its death and the offer may come in one turn of the registry, before the wire receives.
  const Message refusal{Kind::refusal, b.slot(), b.heard[0].message.link};
  a.wire->message({b.slot(), kShmWire, refusal.bytes(), {}}, a.sink);
  b.offer(a, 2);
  ASSERT_TRUE(drive([&] { return b.heard.size() == 2; }, a, b));
  EXPECT_EQ(b.heard[1].message.kind, Kind::offer);
}

// ---- contents

struct Contents : Offers {
  void SetUp() override {
    b.offer(a, 5);
    ASSERT_TRUE(drive([&] { return b.heard.size() == 1; }, a, b));
  }
};

TEST_F(Contents, ThatCanNotBeEndTheLinkAndNoOther) {
  Process c{3};
  ASSERT_EQ(c.carriage(a), Carriage::carried);
  ASSERT_TRUE(c.send(a, frame_for(a.qpn(), 100, 0)));
  ASSERT_TRUE(drive([&] { return a.sink.all.size() == 1; }, a, c));
  a.sink.all.clear();
  b.put({.size = 63}, {}, 0);
  ASSERT_TRUE(c.send(a, frame_for(a.qpn(), 100, 1)));
  c.wire->flush();
  a.turn();
  EXPECT_EQ(a.sink.all.size(), 1u);
  EXPECT_EQ(a.wire->counters().malformed, 1u);
  EXPECT_NE(a.wire->last_send_error().find(std::to_string(b.slot())), std::string::npos);
  EXPECT_FALSE(a.wire->arrived());
}

TEST_F(Contents, OfFramesThatAreTooShortAreDroppedAndCounted) {
  for (const std::size_t size : {0u, 1u, 11u}) {
    b.publish(b.address, a.address, std::vector<std::uint8_t>(size));
  }
  b.publish(b.address, a.address, frame_for(a.qpn(), 12, 0));
  a.turn();
  EXPECT_EQ(a.sink.all.size(), 1u);
  EXPECT_EQ(a.wire->counters().malformed, 3u);
}

TEST_F(Contents, WithoutAddressesAreDropped) {
  b.put({.size = 128, .frame = 100}, frame_for(a.qpn(), 100, 0), 0);
  a.turn();
  EXPECT_TRUE(a.sink.all.empty());
  EXPECT_EQ(a.wire->counters().malformed, 1u);
}

TEST_F(Contents, ThatNeverEndDoNotKeepOthersWaiting) {
  Process c{3};
  ASSERT_EQ(c.carriage(a), Carriage::carried);
  ASSERT_TRUE(c.send(a, frame_for(a.qpn(), 100, 0)));
  ASSERT_TRUE(drive([&] { return a.sink.all.size() == 1; }, a, c));
  a.sink.all.clear();
  b.publish_for_ever(a.address, frame_for(a.qpn(), 100, 0));
  ASSERT_TRUE(c.send(a, frame_for(a.qpn(), 100, 1)));
  c.wire->flush();
  EXPECT_LE(a.wire->receive(a.sink), 65u);
  EXPECT_EQ(std::ranges::count(a.sink.all, frame_for(a.qpn(), 100, 1), &Arrived::frame), 1);
}

TEST_F(Contents, OfAnIndexThatLiesCloseTheLink) {
  for (int tries = 0; tries < 10; ++tries) {
    while (a.send(b, frame_for(b.qpn(), 4096, 0))) {
    }
  }
  b.segment.page().consumed.store(~std::uint64_t{0});
  (void)a.send(b, frame_for(b.qpn(), 4096, 0));
  EXPECT_EQ(a.carriage(b), Carriage::peer_declines);
  EXPECT_TRUE(a.send(b, frame_for(b.qpn(), 4096, 0))) << "lost, not held back for ever";
}

}  // namespace
}  // namespace verbena::wire::test
