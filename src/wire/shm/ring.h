#pragma once

// A ring of frames in memory that one process writes and another one reads. Pure: no system calls.
//
//   | read | read | frame | frame | frame | … unpublished … | free            | wrap |
//                 ^ reader        ^ published               ^ writer
//
// A record is a header and a frame, and begins at a multiple of kAlignment. Its first word is its
// size, and 0 as long as it isn't published: the writer clears the word behind the last record
// before it publishes, and publishes many records by storing the first one's size. A record never
// goes across the end: before the next one at the beginning, one that says `wrap` fills what is
// left. So only the writer knows where the end is, and it can move it.
//
// Neither side trusts the other. The reader takes what it finds for bytes of a stranger: sizes are
// checked, headers are copied before anybody looks at them. The writer never reads the ring; the
// reader's place, which it is told, can only go forward, and not beyond what was published.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace verbena::wire::shm {

/// Of records: a header has its cache line for itself.
inline constexpr std::size_t kAlignment = 64;

struct RecordHeader {
  static constexpr std::uint8_t kWrap = 1;       // no frame: the next record is at the beginning
  static constexpr std::uint8_t kAddresses = 2;  // behind the header: Addresses, good from now on

  std::uint32_t size = 0;   // of the record, a multiple of kAlignment; 0: not published
  std::uint32_t frame = 0;  // bytes of the frame
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t flags = 0;
  std::uint8_t gap = 0;  // bytes between what lies behind the header and the frame
  std::uint8_t reserved[2]{};
};
static_assert(sizeof(RecordHeader) == 16);

/// Of the record that lies before it.
[[nodiscard]] constexpr std::size_t record_size(std::size_t prefix, std::size_t frame) {
  return (sizeof(RecordHeader) + prefix + frame + kAlignment - 1) / kAlignment * kAlignment;
}

/// The end that writes.
class RingWriter {
 public:
  /// `ring` is zeros, a multiple of kAlignment, and aligned itself. Its first `capacity` bytes are
  /// used.
  RingWriter(std::span<std::uint8_t> ring, std::size_t capacity)
      : ring_{ring}, capacity_{capacity}, wanted_{capacity} {}

  /// Rooms for records of the same size, one behind another.
  struct Rooms {
    std::uint8_t* first = nullptr;  // the first one's place behind its header
    std::size_t stride = 0;
    std::size_t count = 0;
  };
  /// At least one and at most `count` records with so many bytes behind their header; none: there
  /// is no room now. The next reserve() forgets those that are not committed.
  [[nodiscard]] Rooms reserve(std::size_t bytes, std::size_t count);
  /// The next record of those that were reserved is complete. `size` of the header is filled in.
  void commit(RecordHeader header);
  /// The reader finds what was committed. False: there was nothing.
  bool publish();

  /// Bytes of committed records that aren't published.
  [[nodiscard]] std::size_t unpublished() const {
    return static_cast<std::size_t>(end_ - published_);
  }
  /// The reader has nothing left to read.
  [[nodiscard]] bool empty() const { return consumed_ == published_; }
  /// The reader says that it has gone so far. False: it can't have.
  [[nodiscard]] bool set_consumed(std::uint64_t consumed);
  [[nodiscard]] std::uint64_t consumed() const { return consumed_; }
  /// What was committed, in the same bytes.
  [[nodiscard]] std::uint64_t written() const { return end_; }

  [[nodiscard]] std::size_t capacity() const { return wanted_; }
  /// Uses more of the ring, from the next time that it comes to the old end.
  void grow(std::size_t capacity) { wanted_ = capacity; }

 private:
  [[nodiscard]] RecordHeader* header_at(std::size_t offset) const {
    return reinterpret_cast<RecordHeader*>(ring_.data() + offset);
  }
  /// Behind the last record there is always one cleared word, and room to say `wrap`.
  [[nodiscard]] std::size_t usable() const {
    return capacity_ - kAlignment - static_cast<std::size_t>(end_ - consumed_);
  }
  void put(std::size_t at, RecordHeader header);

  std::span<std::uint8_t> ring_;
  std::size_t capacity_;  // of this turn
  std::size_t wanted_;    // of later ones
  // Bytes since the beginning of time.
  std::uint64_t consumed_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t end_ = 0;  // of the last record that was committed
  std::size_t head_ = 0;   // end_'s place in the ring

  std::size_t first_ = 0;         // place of the first record that isn't published
  std::uint32_t first_size_ = 0;  // its size; 0: there is none
  std::size_t reserved_at_ = 0;
  std::size_t reserved_size_ = 0;
  std::size_t reserved_ = 0;
};

/// The end that reads.
class RingReader {
 public:
  explicit RingReader(std::span<const std::uint8_t> ring) : ring_{ring} {}

  struct Record {
    RecordHeader header;  // a copy
    std::span<const std::uint8_t>
        body;  // what lies behind it, in the ring: the writer may change it
  };
  /// There is a record, or something is wrong: next() tells.
  [[nodiscard]] bool ready() const;
  /// The next record. nullopt: there is none, or broken().
  [[nodiscard]] std::optional<Record> next();
  /// What can't be: the writer is out of its mind. Nothing comes any more.
  [[nodiscard]] bool broken() const { return broken_; }
  /// How far next() has gone, for the writer. Records before it are gone when it is told.
  [[nodiscard]] std::uint64_t position() const { return position_; }

 private:
  [[nodiscard]] std::uint32_t size_at(std::size_t offset) const;

  std::span<const std::uint8_t> ring_;
  std::uint64_t position_ = 0;
  std::size_t offset_ = 0;
  bool broken_ = false;
};

}  // namespace verbena::wire::shm
