#pragma once

// The two rings between this process and another one, and who wakes whom.
//
// To sleep: say so, full fence, look at the rings once more. To publish (or to make room): store,
// full fence, look whether the other one sleeps; ring its bell once for each sleep. So one of both
// sees the other. Only a full ring makes somebody sleep for room, so a reader needs to look but
// once in kRoomBytes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "base/ip_address.h"
#include "packet/frame.h"
#include "system/fd.h"
#include "wire/shm/ring.h"
#include "wire/shm/segment.h"

namespace verbena::wire::shm {

class Link {
 public:
  /// Bytes of a ring at first, and at most.
  static constexpr std::size_t kRingBytes = 256u << 10;
  static constexpr std::size_t kMostRingBytes = Segment::kRingBytes;
  /// So much is unread, and more, in a ring that has no room for a frame.
  static constexpr std::size_t kRoomBytes = 32u << 10;

  /// `own` has kRingBytes of memory. `id` names the link to the other process.
  Link(std::uint32_t slot, std::uint64_t id, Segment own);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] std::uint64_t id() const { return id_; }

  /// The other process has offered its segment and its bell.
  void complete(std::uint64_t id, Segment other, Fd bell);
  [[nodiscard]] bool complete() const { return static_cast<bool>(other_); }
  [[nodiscard]] std::uint64_t other_id() const { return other_id_; }
  /// The other process can't read what is sent, or will no longer: it is lost.
  void close() { closed_ = true; }
  [[nodiscard]] bool closed() const { return closed_; }
  /// The other process is dead: what it published is taken, and then the link goes. It is not more
  /// than a ring has room for, whatever lies there.
  void finish();
  [[nodiscard]] bool finished() const { return finished_; }
  /// In a forked child.
  void abandon();

  /// Frames between these addresses are for this link: noted once, asked for each of them.
  [[nodiscard]] bool joins(const IpAddress& ours, const IpAddress& theirs) const {
    return joined_ && joined_->first == ours && joined_->second == theirs;
  }
  void note_joins(const IpAddress& ours, const IpAddress& theirs) { joined_ = {ours, theirs}; }

  /// By the owner: it is in its list of links to flush.
  bool touched = false;

  // Sending.

  /// See packet::FrameSink. The bytes of a frame lie in the ring, where the other one sees them.
  [[nodiscard]] packet::FrameRooms reserve(const packet::Flow& flow, std::size_t size,
                                           std::size_t count);
  /// The header of the next frame that was reserved; its bytes are there.
  void commit();
  void publish() { published_ = writer_.publish() || published_; }
  /// The ring was full since the last call: a larger one would have helped.
  [[nodiscard]] bool was_full() { return std::exchange(was_full_, false); }
  /// Uses more memory, which is there already.
  [[nodiscard]] bool grow(std::size_t bytes);
  [[nodiscard]] std::size_t capacity() const { return writer_.capacity(); }
  [[nodiscard]] packet::Passage passage() const;

  // Receiving.

  [[nodiscard]] bool ready() const { return reader_ && !at_end() && reader_->ready(); }
  [[nodiscard]] bool broken() const { return reader_ && reader_->broken(); }
  /// The next frame: what its header says, and its bytes in the ring. nullopt: there is none.
  [[nodiscard]] std::optional<packet::Datagram> next();
  /// Frames that next() gave are done with. True: flush() has to look whether the other process
  /// sleeps for room.
  bool release();

  // Waking.

  // Steps of flush() and may_sleep().
  /// After publish() and release(), and a full fence.
  void wake_other();
  void say_asleep();
  void say_awake();
  /// After say_asleep() and a full fence: there is something to do all the same.
  [[nodiscard]] bool has_news();

 private:
  struct Addresses {
    IpAddress::Bytes source{};
    IpAddress::Bytes destination{};
  };

  /// False: the other process says what can't be.
  bool look_for_room();
  /// The ring is full. True: there is news of room already.
  bool say_starved();
  /// Of what a dead process has left.
  [[nodiscard]] bool at_end() const { return finished_ && reader_->position() >= end_; }

  std::uint32_t slot_;
  std::uint64_t id_;
  std::uint64_t other_id_ = 0;
  std::optional<std::pair<IpAddress, IpAddress>> joined_{};
  bool closed_ = false;
  bool finished_ = false;
  std::uint64_t end_ = 0;  // finished: nothing beyond it is read
  Segment own_;
  Segment other_{};
  Fd bell_{};  // the other's

  RingWriter writer_;
  // Addresses of the last record that carried any, and of the reserved one.
  IpAddress sent_from_{};
  IpAddress sent_to_{};
  IpAddress from_{};
  IpAddress to_{};
  bool with_addresses_ = false;  // the record that is reserved
  RecordHeader header_{};
  std::size_t reserved_ = 0;
  std::span<std::uint8_t> place_{};  // of the frames that are reserved
  // A small frame is made here and copied at once: its line would go back and forth if its reader,
  // who looks at it all the time, did so between two stores.
  std::array<std::uint8_t, 256> small_{};
  bool staged_ = false;
  bool starved_ = false;          // a frame found no room, and its sender has not looked again
  std::uint64_t starved_at_ = 0;  // what the other process had read then
  bool was_full_ = false;
  bool published_ = false;      // since wake_other()
  std::uint32_t rung_for_ = 0;  // the sleep that the bell was rung for

  std::optional<RingReader> reader_{};
  Addresses received_{};
  std::uint64_t looked_at_ = 0;  // how far it had read when it last looked who sleeps for room
  bool released_ = false;        // kRoomBytes since then
};

/// The other processes find what was committed to these links, and room; those that sleep are
/// woken.
void flush(std::span<Link* const> links);
/// Before this process sleeps on its bell. False: there is something to do.
[[nodiscard]] bool may_sleep(std::span<Link* const> links);

}  // namespace verbena::wire::shm
