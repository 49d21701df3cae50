// The ring between two processes: what comes out, when, and what no writer or reader can make the
// other end do.

#include "wire/shm/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <random>
#include <vector>

namespace verbena::wire::shm {
namespace {

struct alignas(kAlignment) Line {
  std::uint8_t bytes[kAlignment]{};
};

/// Memory of a ring with lines of guards around it.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : lines_(bytes / kAlignment + 2) {
    std::ranges::fill(lines_.front().bytes, kGuard);
    std::ranges::fill(lines_.back().bytes, kGuard);
  }
  [[nodiscard]] std::span<std::uint8_t> bytes() {
    return {lines_[1].bytes, (lines_.size() - 2) * kAlignment};
  }
  [[nodiscard]] bool guards_hold() const {
    const auto whole = [](const Line& line) {
      return std::ranges::all_of(line.bytes, [](std::uint8_t b) { return b == kGuard; });
    };
    return whole(lines_.front()) && whole(lines_.back());
  }
  /// A record's header, as any writer may put it there.
  void put(std::size_t at, const RecordHeader& header) {
    std::memcpy(bytes().data() + at, &header, sizeof header);
  }

 private:
  static constexpr std::uint8_t kGuard = 0xa5;
  std::vector<Line> lines_;
};

std::vector<std::uint8_t> contents(std::size_t size, std::uint8_t seed) {
  std::vector<std::uint8_t> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(seed + i * 7);
  return out;
}

/// Both ends, and what the reader has still to find.
struct Ring {
  explicit Ring(std::size_t capacity, std::size_t bytes = 0)
      : memory{std::max(bytes, capacity)}, writer{memory.bytes(), capacity} {}

  bool write(std::size_t size) {
    const auto rooms = writer.reserve(size, 1);
    if (rooms.count == 0) return false;
    const auto frame = contents(size, static_cast<std::uint8_t>(next_++));
    std::ranges::copy(frame, rooms.first);
    writer.commit({.frame = static_cast<std::uint32_t>(size)});
    expected.push_back(frame);
    return true;
  }
  /// The next record is the one that was written next.
  void read() {
    const auto record = reader.next();
    ASSERT_TRUE(record);
    ASSERT_FALSE(expected.empty()) << "a record that nobody wrote";
    const auto& frame = expected.front();
    ASSERT_EQ(record->header.frame, frame.size());
    ASSERT_GE(record->body.size(), frame.size());
    EXPECT_TRUE(std::ranges::equal(record->body.first(frame.size()), frame));
    expected.pop_front();
  }
  void read_all() {
    while (reader.ready()) ASSERT_NO_FATAL_FAILURE(read());
  }
  [[nodiscard]] bool tell() { return writer.set_consumed(reader.position()); }

  Memory memory;
  RingWriter writer;
  RingReader reader{memory.bytes()};
  std::deque<std::vector<std::uint8_t>> expected;

 private:
  unsigned next_ = 0;
};

TEST(Ring, GivesEachRecordAsItWasWritten) {
  Ring ring{16'384};
  for (const std::size_t size : {16u, 1u, 48u, 49u, 1024u, 4096u}) ASSERT_TRUE(ring.write(size));
  EXPECT_TRUE(ring.writer.publish());
  ring.read_all();
  EXPECT_TRUE(ring.expected.empty());
  EXPECT_EQ(ring.reader.next(), std::nullopt);
  EXPECT_FALSE(ring.reader.broken());
}

TEST(Ring, GivesTheHeaderAsItWasWritten) {
  Ring ring{4096};
  ASSERT_EQ(ring.writer.reserve(100, 1).count, 1u);
  ring.writer.commit({.frame = 100,
                      .source_port = 0xc123,
                      .traffic_class = 0x68,
                      .hop_limit = 7,
                      .flags = RecordHeader::kAddresses});
  ring.writer.publish();
  const auto record = ring.reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->header.size, record_size(0, 100));
  EXPECT_EQ(record->body.size(), record_size(0, 100) - sizeof(RecordHeader));
  EXPECT_EQ(record->header.source_port, 0xc123);
  EXPECT_EQ(record->header.traffic_class, 0x68);
  EXPECT_EQ(record->header.hop_limit, 7);
  EXPECT_EQ(record->header.flags, RecordHeader::kAddresses);
}

TEST(Ring, ManyRecordsAreFoundAtOnceWhenTheyArePublished) {
  Ring ring{16'384};
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(ring.write(100));
  EXPECT_FALSE(ring.reader.ready());
  EXPECT_EQ(ring.reader.next(), std::nullopt);
  EXPECT_EQ(ring.writer.unpublished(), 20 * record_size(0, 100));
  EXPECT_TRUE(ring.writer.publish());
  EXPECT_EQ(ring.writer.unpublished(), 0u);
  for (int i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(ring.read());
  EXPECT_FALSE(ring.reader.ready());
}

TEST(Ring, PublishingNothingSaysSo) {
  Ring ring{4096};
  EXPECT_FALSE(ring.writer.publish());
  ASSERT_TRUE(ring.write(10));
  EXPECT_TRUE(ring.writer.publish());
  EXPECT_FALSE(ring.writer.publish());
}

TEST(Ring, RoomsThatWereNotCommittedAreForgotten) {
  Ring ring{16'384};
  const auto rooms = ring.writer.reserve(100, 5);
  ASSERT_EQ(rooms.count, 5u);
  EXPECT_EQ(rooms.stride, record_size(0, 100));
  for (unsigned i = 0; i < 2; ++i) {
    std::fill_n(rooms.first + i * rooms.stride, 100, static_cast<std::uint8_t>(1 + i));
    ring.writer.commit({.frame = 100});
  }
  const auto again = ring.writer.reserve(16, 1);
  ASSERT_EQ(again.count, 1u);
  EXPECT_EQ(again.first, rooms.first + 2 * rooms.stride);
  *again.first = 3;
  ring.writer.commit({.frame = 16});
  ring.writer.commit({.frame = 16});  // nothing is reserved any more
  ring.writer.publish();
  for (const int first : {1, 2, 3}) {
    const auto record = ring.reader.next();
    ASSERT_TRUE(record);
    EXPECT_EQ(record->body[0], first);
  }
  EXPECT_FALSE(ring.reader.ready());
}

TEST(Ring, TakesNoMoreThanItHasRoomFor) {
  Ring ring{1024};  // 16 lines, and one is always free
  EXPECT_EQ(ring.writer.reserve(48, 100).count, 15u);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(ring.write(48));
  EXPECT_FALSE(ring.write(1));
  ring.writer.publish();
  EXPECT_FALSE(ring.writer.empty());
  ring.read_all();
  EXPECT_FALSE(ring.write(1)) << "the reader hasn't said that it has read";
  EXPECT_TRUE(ring.tell());
  EXPECT_TRUE(ring.writer.empty());
  EXPECT_TRUE(ring.write(48));
}

TEST(Ring, TheReaderOfAFullRingStopsWhereTheWriterDid) {
  Ring ring{1024};
  for (int turn = 0; turn < 40; ++turn) {
    while (ring.write(48)) {
    }
    ring.writer.publish();
    ring.read_all();
    ASSERT_TRUE(ring.expected.empty());
    ASSERT_TRUE(ring.tell());
    ASSERT_FALSE(ring.reader.ready()) << "a record of the turn before, once more";
  }
}

TEST(Ring, ARecordNeverGoesAcrossTheEnd) {
  Ring ring{1024};
  ASSERT_TRUE(ring.write(600));  // 640 of 1024: another one doesn't fit behind it
  ring.writer.publish();
  ring.read_all();
  ASSERT_TRUE(ring.tell());
  const auto rooms = ring.writer.reserve(300, 3);
  ASSERT_EQ(rooms.count, 1u);
  EXPECT_EQ(rooms.first, ring.memory.bytes().data() + 640 + sizeof(RecordHeader));
  const auto wrapped = ring.writer.reserve(400, 1);
  ASSERT_EQ(wrapped.count, 1u);
  EXPECT_EQ(wrapped.first, ring.memory.bytes().data() + sizeof(RecordHeader));
  ring.writer.commit({.frame = 400});
  ring.writer.publish();
  const auto record = ring.reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->body.data(), wrapped.first);
  EXPECT_EQ(ring.reader.position(), 1024u + record_size(0, 400)) << "what was skipped counts";
  EXPECT_TRUE(ring.tell());
}

TEST(Ring, WrapsOnlyWhenTheRecordIsCommitted) {
  Ring ring{1024};
  ASSERT_TRUE(ring.write(600));
  ring.writer.publish();
  ring.read_all();
  ASSERT_TRUE(ring.tell());
  ASSERT_EQ(ring.writer.reserve(400, 1).count, 1u);  // at the beginning; not committed
  ASSERT_TRUE(ring.write(100));                      // behind the first one
  ring.writer.publish();
  const auto record = ring.reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->body.data(), ring.memory.bytes().data() + 640 + sizeof(RecordHeader));
}

TEST(Ring, GrowsWhenItComesToTheOldEnd) {
  Ring ring{1024, 4096};
  ASSERT_TRUE(ring.write(600));
  ring.writer.grow(4096);
  EXPECT_EQ(ring.writer.capacity(), 4096u);
  EXPECT_TRUE(ring.write(600)) << "unread bytes end where these begin";
  EXPECT_TRUE(ring.write(2000));
  EXPECT_FALSE(ring.write(1000));
  ring.writer.publish();
  ring.read_all();
  EXPECT_TRUE(ring.expected.empty());
  ASSERT_TRUE(ring.tell());
  EXPECT_TRUE(ring.write(1000)) << "at the beginning again";
}

TEST(Ring, DoesNotGrowWhileTheTurnBeforeIsUnreadUpToTheOldEnd) {
  Ring ring{1024, 4096};
  ASSERT_TRUE(ring.write(400));
  ASSERT_TRUE(ring.write(400));
  ring.writer.publish();
  ASSERT_NO_FATAL_FAILURE(ring.read());
  ASSERT_TRUE(ring.tell());
  ASSERT_TRUE(ring.write(300));  // at the beginning; the second one is unread behind it
  ring.writer.grow(4096);
  EXPECT_FALSE(ring.write(600)) << "it would overwrite the second one";
  ring.writer.publish();
  ring.read_all();
  EXPECT_TRUE(ring.expected.empty());
  ASSERT_TRUE(ring.tell());
  EXPECT_TRUE(ring.write(3000)) << "now it has grown";
}

/// A writer and a reader in any order, with a ring that grows.
void random_traffic(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  constexpr std::size_t kMost = 8192;
  std::size_t capacity = 512u << pick(3);
  Ring ring{capacity, kMost};
  for (int step = 0; step < 400; ++step) {
    switch (pick(8)) {
      case 0:
        if (capacity < kMost && pick(10) == 0) ring.writer.grow(capacity *= 2);
        break;
      case 1:
      case 2:
        ring.writer.publish();
        break;
      case 3:
        (void)ring.writer.reserve(1 + pick(200), 1 + pick(8));
        break;
      case 4:
      case 5:
        for (std::size_t n = pick(6); n > 0 && ring.reader.ready(); --n) {
          ASSERT_NO_FATAL_FAILURE(ring.read());
        }
        if (pick(2) != 0) {
          ASSERT_TRUE(ring.tell());
        }
        break;
      default:
        while (ring.write(1 + pick(220)) && pick(3) != 0) {
        }
    }
    ASSERT_FALSE(ring.reader.broken());
  }
  ring.writer.publish();
  ASSERT_NO_FATAL_FAILURE(ring.read_all());
  EXPECT_TRUE(ring.expected.empty()) << "records are missing";
  EXPECT_TRUE(ring.tell());
  EXPECT_TRUE(ring.writer.empty());
  EXPECT_TRUE(ring.memory.guards_hold());
}

TEST(Ring, AnyTrafficComesOutInOrder) {
  for (std::uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_traffic(seed);
  }
}

// ---- a reader that lies

TEST(RingWriter, DoesNotBelieveAReaderThatGoesBackOrTooFar) {
  Ring ring{4096};
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ring.write(100));
  EXPECT_FALSE(ring.writer.set_consumed(64)) << "nothing is published";
  ring.writer.publish();
  EXPECT_TRUE(ring.writer.set_consumed(2 * record_size(0, 100)));
  EXPECT_FALSE(ring.writer.set_consumed(record_size(0, 100))) << "backwards";
  EXPECT_FALSE(ring.writer.set_consumed(4 * record_size(0, 100) + 1)) << "beyond";
  EXPECT_FALSE(ring.writer.set_consumed(~std::uint64_t{0}));
  EXPECT_EQ(ring.writer.consumed(), 2 * record_size(0, 100)) << "it stays what it was";
  EXPECT_TRUE(ring.writer.set_consumed(4 * record_size(0, 100)));
}

TEST(RingWriter, StaysInsideItsRingWhateverTheReaderSays) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 random{seed};
    Memory memory{4096};
    RingWriter writer{memory.bytes(), 1024};
    std::uint64_t told = 0;
    for (int step = 0; step < 300; ++step) {
      const std::size_t size = 1 + random() % 400;
      const auto rooms = writer.reserve(size, 1 + random() % 4);
      for (std::size_t i = 0; i < rooms.count; ++i) {
        std::uint8_t* const at = rooms.first + i * rooms.stride;
        ASSERT_GE(at, memory.bytes().data() + sizeof(RecordHeader));
        ASSERT_LE(at + size, memory.bytes().data() + memory.bytes().size() - kAlignment);
        std::fill_n(at, size, std::uint8_t{0xff});
        if (random() % 4 != 0) writer.commit({.frame = static_cast<std::uint32_t>(size)});
      }
      if (random() % 2 != 0) writer.publish();
      if (random() % 20 == 0) writer.grow(4096);
      const std::uint64_t lie = told + random() % 700;  // of any alignment
      if (writer.set_consumed(lie)) told = lie;
    }
    ASSERT_TRUE(memory.guards_hold());
  }
}

// ---- a writer that lies

struct Lie {
  const char* what;
  std::vector<std::pair<std::size_t, RecordHeader>> headers;
  unsigned records = 0;  // that come out before it is found
};

class HostileWriter : public testing::TestWithParam<Lie> {};

TEST_P(HostileWriter, IsFoundOut) {
  Memory memory{1024};
  for (const auto& [at, header] : GetParam().headers) memory.put(at, header);
  RingReader reader{memory.bytes()};
  for (unsigned i = 0; i < GetParam().records; ++i) ASSERT_TRUE(reader.next()) << "record " << i;
  EXPECT_TRUE(reader.ready());
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_TRUE(reader.broken());
  EXPECT_FALSE(reader.ready()) << "nothing comes any more";
  memory.put(0, {.size = 64});
  EXPECT_EQ(reader.next(), std::nullopt);
}

constexpr std::uint8_t kWrap = RecordHeader::kWrap;
INSTANTIATE_TEST_SUITE_P(
    Ring, HostileWriter,
    testing::Values(
        Lie{"NotAligned", {{0, {.size = 65}}}}, Lie{"ShorterThanAHeader", {{0, {.size = 8}}}},
        Lie{"BeyondTheEnd", {{0, {.size = 1088}}}}, Lie{"Huge", {{0, {.size = 0xffff'ffc0}}}},
        Lie{"EndsAtTheEnd", {{0, {.size = 1024}}}},
        Lie{"EndsAtTheEndLater", {{0, {.size = 64}}, {64, {.size = 960}}}, 1},
        Lie{"WrapsBeyondTheEnd", {{0, {.size = 64}}, {64, {.size = 1024, .flags = kWrap}}}, 1},
        Lie{"WrapsTwice",
            {{0, {.size = 64, .flags = kWrap}}}},  // and finds itself at the beginning again
        Lie{"AllOnes", {{0, {.size = ~0u, .frame = ~0u, .flags = 0xff}}}}),
    [](const auto& p) { return p.param.what; });

TEST(RingReader, WaitsAtAnEmptyRecordAndAtTheBeginningAfterWrap) {
  Memory memory{1024};
  RingReader reader{memory.bytes()};
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_FALSE(reader.broken());
  memory.put(0, {.size = 128});
  memory.put(128, {.size = 896, .flags = kWrap});
  EXPECT_TRUE(reader.next());
  memory.put(0, {.size = 0});
  EXPECT_EQ(reader.next(), std::nullopt);
  EXPECT_FALSE(reader.broken());
  EXPECT_EQ(reader.position(), 1024u);
  memory.put(0, {.size = 64});
  EXPECT_TRUE(reader.next());
}

TEST(RingReader, StaysInsideTheRingWhateverLiesThere) {
  for (std::uint64_t seed = 1; seed <= 5000; ++seed) {
    std::mt19937_64 random{seed};
    Memory memory{1024};
    for (std::size_t at = 0; at < 1024; at += kAlignment) {
      memory.put(
          at, {.size = static_cast<std::uint32_t>(random() % 8 == 0 ? random() : random() % 6 * 64),
               .frame = static_cast<std::uint32_t>(random()),
               .flags = static_cast<std::uint8_t>(random() % 8 == 0)});
    }
    RingReader reader{memory.bytes()};
    for (int i = 0; i < 100; ++i) {
      const auto record = reader.next();
      if (!record) break;
      ASSERT_GE(record->body.data(), memory.bytes().data() + sizeof(RecordHeader));
      ASSERT_LE(record->body.data() + record->body.size(), memory.bytes().data() + 1024);
    }
  }
}

}  // namespace
}  // namespace verbena::wire::shm
