// The two rings between two processes: what frames say of themselves, who is woken, and what the
// other process can't do.

#include "wire/shm/link.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "packet/packet.h"
#include "tests/support/link_pair.h"

namespace verbena::wire::shm {
namespace {

using test::LinkEnd;
using test::LinkPair;

packet::Flow flow(std::uint8_t from = 1, std::uint8_t to = 2) {
  return {.source = IpAddress::v4({10, 0, 0, from}),
          .destination = IpAddress::v4({10, 0, 0, to}),
          .source_port = 0xc000};
}

std::vector<std::uint8_t> frame_of(std::size_t size, std::uint8_t seed) {
  std::vector<std::uint8_t> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(seed + i * 7);
  return out;
}

bool send(Link& link, const packet::Flow& f, const std::vector<std::uint8_t>& frame) {
  const auto rooms = link.reserve(f, frame.size(), 1);
  if (rooms.count == 0) return false;
  std::ranges::copy(frame, rooms[0].begin());
  link.commit();
  return true;
}

/// The frame without the ICRC that nobody computed.
std::vector<std::uint8_t> body_of(const packet::Datagram& d) {
  return {d.bytes.begin(), d.bytes.end() - packet::kIcrcSize};
}

TEST(Link, CarriesAFrameAndWhatItsHeadersSay) {
  LinkPair pair;
  auto f = flow();
  f.traffic_class = 0x68;
  f.hop_limit = 7;
  ASSERT_TRUE(send(*pair.a.link, f, frame_of(1000, 3)));
  EXPECT_FALSE(pair.b.link->ready());
  pair.a.flush();
  ASSERT_TRUE(pair.b.link->ready());
  const auto d = pair.b.link->next();
  ASSERT_TRUE(d);
  EXPECT_EQ(d->source, f.source);
  EXPECT_EQ(d->destination, f.destination);
  EXPECT_EQ(d->source_port, f.source_port);
  EXPECT_EQ(d->traffic_class, 0x68);
  EXPECT_EQ(d->hop_limit, 7);
  EXPECT_EQ(body_of(*d), frame_of(1000, 3));
  EXPECT_EQ(pair.b.link->next(), std::nullopt);
}

TEST(Link, GivesTheHopLimitOfARouteWhereTheSenderHasNone) {
  LinkPair pair;
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(20, 0)));
  pair.a.flush();
  EXPECT_EQ(pair.b.link->next()->hop_limit, 64);
}

TEST(Link, AddressesHoldUntilOthersCome) {
  LinkPair pair;
  const std::vector<packet::Flow> flows{flow(1, 2), flow(1, 2), flow(3, 2), flow(3, 2), flow(1, 2)};
  for (const auto& f : flows) ASSERT_TRUE(send(*pair.a.link, f, frame_of(40, 0)));
  pair.a.flush();
  for (const auto& f : flows) {
    const auto d = pair.b.link->next();
    ASSERT_TRUE(d);
    EXPECT_EQ(d->source, f.source);
    EXPECT_EQ(d->destination, f.destination);
    EXPECT_EQ(d->bytes.size(), 40 + packet::kIcrcSize);
  }
}

TEST(Link, AddressesOfAFrameThatWasNotCommittedAreSaidAgain) {
  LinkPair pair;
  ASSERT_TRUE(send(*pair.a.link, flow(1, 2), frame_of(40, 0)));
  ASSERT_EQ(pair.a.link->reserve(flow(3, 4), 40, 1).count, 1u);
  ASSERT_TRUE(send(*pair.a.link, flow(3, 4), frame_of(40, 1)));
  pair.a.flush();
  EXPECT_EQ(pair.b.link->next()->source, flow(1, 2).source);
  EXPECT_EQ(pair.b.link->next()->source, flow(3, 4).source);
}

TEST(Link, FramesOfARunLieBehindEachOther) {
  LinkPair pair;
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(12, 0)));  // now the addresses are known
  const auto rooms = pair.a.link->reserve(flow(), 100, 8);
  ASSERT_EQ(rooms.count, 8u);
  EXPECT_EQ(rooms.size, 100u);
  for (std::size_t i = 0; i < rooms.count; ++i) {
    std::ranges::copy(frame_of(100, static_cast<std::uint8_t>(i)), rooms[i].begin());
    pair.a.link->commit();
  }
  pair.a.link->commit();  // there is no ninth
  pair.a.flush();
  ASSERT_TRUE(pair.b.link->next());
  for (std::uint8_t i = 0; i < 8; ++i) {
    const auto d = pair.b.link->next();
    ASSERT_TRUE(d);
    EXPECT_EQ(body_of(*d), frame_of(100, i));
  }
  EXPECT_FALSE(pair.b.link->ready());
}

TEST(Link, ManyBytesArePublishedBeforeAnybodyFlushes) {
  LinkPair pair;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(4096, 0)));
  EXPECT_TRUE(pair.b.link->ready());
}

TEST(Link, ARingIsFullUntilTheReaderSaysThatItHasRead) {
  LinkPair pair;
  unsigned sent = 0;
  while (send(*pair.a.link, flow(), frame_of(4096, static_cast<std::uint8_t>(sent)))) ++sent;
  EXPECT_GE(sent * 4096u, Link::kRingBytes * 9 / 10);
  EXPECT_TRUE(pair.a.link->was_full());
  EXPECT_FALSE(pair.a.link->was_full()) << "since the last call";
  // What was committed is published, or nobody would make room.
  for (unsigned i = 0; i < sent; ++i) {
    const auto d = pair.b.link->next();
    ASSERT_TRUE(d);
    ASSERT_EQ(body_of(*d), frame_of(4096, static_cast<std::uint8_t>(i)));
  }
  EXPECT_FALSE(send(*pair.a.link, flow(), frame_of(4096, 0)));
  pair.b.link->release();
  EXPECT_TRUE(send(*pair.a.link, flow(), frame_of(4096, 0)));
}

TEST(Link, AFullRingGrows) {
  LinkPair pair;
  while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
  }
  ASSERT_TRUE(pair.a.link->grow(2 * Link::kRingBytes));
  EXPECT_EQ(pair.a.link->capacity(), 2 * Link::kRingBytes);
  unsigned more = 0;
  while (send(*pair.a.link, flow(), frame_of(4096, 0))) ++more;
  EXPECT_GE(more * 4096u, Link::kRingBytes * 9 / 10);
  while (pair.b.link->next()) {
  }
  EXPECT_FALSE(pair.b.link->broken());
}

// ---- a process that lies

TEST(Link, AFrameIsNoLongerThanItsRecord) {
  LinkPair pair;
  for (const std::uint32_t says : {49u, 4096u, 0xffff'ffffu}) {
    pair.a.put({.size = 64, .frame = says});
    const auto d = pair.b.link->next();
    ASSERT_TRUE(d);
    EXPECT_LE(d->bytes.size(), 64 - sizeof(RecordHeader));
  }
}

TEST(Link, AddressesAreTakenOutOfTheRecord) {
  LinkPair pair;
  pair.a.put({.size = 64, .frame = 4096, .flags = RecordHeader::kAddresses});
  const auto d = pair.b.link->next();
  ASSERT_TRUE(d);
  EXPECT_EQ(d->bytes.size(), 64 - sizeof(RecordHeader) - 2 * sizeof(IpAddress::Bytes));
}

TEST(Link, BrokenContentsAreTheLastOnes) {
  LinkPair pair;
  pair.a.put({.size = 63});
  EXPECT_TRUE(pair.b.link->ready());
  EXPECT_EQ(pair.b.link->next(), std::nullopt);
  EXPECT_TRUE(pair.b.link->broken());
  EXPECT_FALSE(pair.b.link->ready());
}

TEST(Link, ClosesWhenTheReaderSaysWhatCanNotBe) {
  const auto close = [](std::uint64_t first, std::uint64_t second) {
    LinkPair pair;
    while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
    }
    pair.b.page().consumed.store(first);
    if (first != 0) {
      EXPECT_TRUE(send(*pair.a.link, flow(), frame_of(4096, 0)));
    }
    while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
    }
    EXPECT_FALSE(pair.a.link->closed());
    pair.b.page().consumed.store(second);
    EXPECT_FALSE(send(*pair.a.link, flow(), frame_of(4096, 0)));
    return pair.a.link->closed();
  };
  EXPECT_TRUE(close(0, Link::kRingBytes)) << "more than was published";
  EXPECT_TRUE(close(0, ~std::uint64_t{0}));
  EXPECT_TRUE(close(65'536, 64)) << "backwards";
  EXPECT_FALSE(close(65'536, 65'600));
}

/// A dead process leaves what it published, and can't leave more than a ring of it.
TEST(Link, WhatADeadProcessLeftHasAnEnd) {
  LinkPair pair;
  pair.a.put({.size = 64, .frame = 48});
  pair.a.put({.size = 64, .flags = RecordHeader::kWrap}, 64);  // round and round
  pair.b.link->finish();
  std::size_t records = 0;
  while (pair.b.link->next()) ASSERT_LE(++records, Segment::kRingBytes / kAlignment);
  EXPECT_FALSE(pair.b.link->ready());
}

// ---- waking

TEST(Waking, NobodyRingsForWhoIsAwake) {
  LinkPair pair;
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(40, 0)));
  pair.a.flush();
  EXPECT_EQ(pair.b.rings(), 0u);
}

TEST(Waking, RingsOnceForEachSleep) {
  LinkPair pair;
  for (std::uint64_t sleeps = 1; sleeps < 4; ++sleeps) {
    ASSERT_TRUE(pair.b.may_sleep());
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(40, 0)));
      pair.a.flush();
    }
    EXPECT_EQ(pair.b.rings(), sleeps);
    pair.b.link->say_awake();
    pair.b.take_all();
    pair.b.flush();
    EXPECT_EQ(pair.a.rings(), 0u);
  }
}

TEST(Waking, DoesNotRingWithoutNews) {
  LinkPair pair;
  ASSERT_TRUE(pair.b.may_sleep());
  pair.a.flush();
  EXPECT_EQ(pair.b.rings(), 0u);
}

TEST(Waking, WhoHasNewsDoesNotSleep) {
  LinkPair pair;
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(40, 0)));
  EXPECT_TRUE(pair.b.may_sleep()) << "it isn't published";
  pair.b.link->say_awake();
  pair.a.flush();
  EXPECT_FALSE(pair.b.may_sleep());
}

TEST(Waking, RoomIsNewsForWhoIsStarved) {
  LinkPair pair;
  while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
  }
  pair.a.flush();
  ASSERT_TRUE(pair.a.may_sleep());
  for (std::size_t taken = 0; taken < Link::kRoomBytes; taken += 4096) {
    EXPECT_EQ(pair.a.rings(), 0u) << "not for less than is worth it";
    ASSERT_TRUE(pair.b.link->next());
    EXPECT_EQ(pair.b.link->release(), taken + 4096 >= Link::kRoomBytes);
    pair.b.flush();
  }
  EXPECT_EQ(pair.a.rings(), 1u);
  pair.a.link->say_awake();
  EXPECT_FALSE(pair.a.may_sleep()) << "there is room, and nobody has looked";
  pair.a.link->say_awake();
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(64, 0)));
  EXPECT_TRUE(pair.a.may_sleep()) << "not starved any more";
}

TEST(Waking, ASmallFrameDoesNotHideThatALargeOneWaits) {
  LinkPair pair;
  while (send(*pair.a.link, flow(), frame_of(3000, 0))) {
  }
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(20, 0))) << "another queue pair's";
  pair.a.flush();
  ASSERT_TRUE(pair.a.may_sleep());
  pair.b.take_all();
  pair.b.flush();
  EXPECT_EQ(pair.a.rings(), 1u);
}

TEST(Waking, RoomIsNoNewsForOthers) {
  LinkPair pair;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(4096, 0)));
  pair.a.flush();
  ASSERT_TRUE(pair.a.may_sleep());
  pair.b.take_all();
  pair.b.flush();
  EXPECT_EQ(pair.a.rings(), 0u);
}

/// A thread of the program fills the ring while the NIC thread sleeps already.
TEST(Waking, WhoStarvesInItsSleepHearsOfRoom) {
  LinkPair pair;
  ASSERT_TRUE(pair.a.may_sleep());
  while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
  }
  pair.a.flush();
  pair.b.take_all();
  pair.b.flush();
  EXPECT_EQ(pair.a.rings(), 1u);
}

TEST(Waking, WhatWasSentBeforeTheOtherEndWasThereIsNewsForIt) {
  LinkPair pair{LinkPair::Complete::no};
  ASSERT_TRUE(send(*pair.a.link, flow(), frame_of(40, 5)));
  pair.a.flush();
  pair.a.know(pair.b);
  pair.b.know(pair.a);
  ASSERT_TRUE(pair.b.link->ready());
  pair.b.link->say_asleep();
  pair.a.flush();
  EXPECT_EQ(pair.b.rings(), 1u);
  EXPECT_EQ(body_of(*pair.b.link->next()), frame_of(40, 5));
}

TEST(Link, WithoutTheOtherEndNothingArrivesAndNobodyIsWoken) {
  LinkPair pair{LinkPair::Complete::no};
  EXPECT_FALSE(pair.a.link->complete());
  EXPECT_FALSE(pair.a.link->ready());
  EXPECT_FALSE(pair.a.link->broken());
  pair.a.link->release();
  EXPECT_TRUE(pair.a.may_sleep());
  while (send(*pair.a.link, flow(), frame_of(4096, 0))) {
  }
  EXPECT_FALSE(pair.a.link->closed());
  pair.a.flush();
}

}  // namespace
}  // namespace verbena::wire::shm
