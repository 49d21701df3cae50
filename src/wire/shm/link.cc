#include "wire/shm/link.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "packet/packet.h"
#include "system/kernel_calls.h"

namespace verbena::wire::shm {
namespace {

/// While it writes, the reader on another core may begin to read.
constexpr std::size_t kPublishFrom = 16u << 10;
/// Frames that end at the end of a cache line, checksum left out, so that a payload of whole lines
/// fills lines.
constexpr std::size_t kAlignFrom = 1024;
/// A datagram whose sender left it to the route arrives with this one.
constexpr std::uint8_t kHopLimit = 64;

void full_fence() {
#if defined(__SANITIZE_THREAD__)
  // It doesn't know fences. On x86 this is one; no other thread sees the word.
  thread_local std::atomic<unsigned> word;
  word.fetch_add(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

Link::Link(std::uint32_t slot, std::uint64_t id, Segment own)
    : slot_{slot}, id_{id}, own_{std::move(own)}, writer_{own_.ring(), kRingBytes} {}

void Link::complete(std::uint64_t id, Segment other, Fd bell) {
  other_id_ = id;
  other_ = std::move(other);
  bell_ = std::move(bell);
  reader_.emplace(other_.ring());
  published_ = true;  // it may have gone to sleep without a bell
}

void Link::finish() {
  finished_ = true;
  if (reader_) end_ = reader_->position() + Segment::kRingBytes;
}

void Link::abandon() {
  own_.abandon();
  other_.abandon();
  bell_.reset();
}

packet::FrameRooms Link::reserve(const packet::Flow& flow, std::size_t size, std::size_t count) {
  reserved_ = 0;
  from_ = flow.source;
  to_ = flow.destination;
  with_addresses_ = !(from_ == sent_from_ && to_ == sent_to_);
  const std::size_t prefix = with_addresses_ ? sizeof(Addresses) : 0;
  const std::size_t gap = size < kAlignFrom ? 0 : -(sizeof header_ + prefix + size) % kAlignment;
  const std::size_t bytes = size + packet::kIcrcSize;
  const std::size_t most = with_addresses_ ? 1 : count;
  auto rooms = writer_.reserve(prefix + gap + bytes, most);
  if (rooms.count == 0 && look_for_room()) rooms = writer_.reserve(prefix + gap + bytes, most);
  if (rooms.count == 0 && say_starved() && look_for_room()) {
    rooms = writer_.reserve(prefix + gap + bytes, most);
  }
  if (rooms.count == 0) {
    publish();
    was_full_ = true;
    return {};
  }
  reserved_ = rooms.count;
  header_ = {.frame = static_cast<std::uint32_t>(bytes),
             .source_port = flow.source_port,
             .traffic_class = flow.traffic_class,
             .hop_limit = flow.hop_limit,
             .flags = with_addresses_ ? RecordHeader::kAddresses : std::uint8_t{0},
             .gap = static_cast<std::uint8_t>(gap)};
  if (with_addresses_) {
    const Addresses addresses{from_.bytes(), to_.bytes()};
    std::memcpy(rooms.first, &addresses, sizeof addresses);
  }
  const std::size_t all = (rooms.count - 1) * rooms.stride + size;
  place_ = {rooms.first + prefix + gap, all};
  staged_ = rooms.count == 1 && size <= small_.size();
  if (staged_) return {std::span{small_}.first(size), size, size, 1};
  return {place_, size, rooms.stride, rooms.count};
}

void Link::commit() {
  if (reserved_ == 0) return;
  --reserved_;
  if (staged_) std::memcpy(place_.data(), small_.data(), place_.size());
  writer_.commit(header_);
  if (with_addresses_) {
    sent_from_ = from_;
    sent_to_ = to_;
  }
  if (writer_.unpublished() >= kPublishFrom) publish();
}

bool Link::look_for_room() {
  if (!other_) return false;
  // What was read before the other process said so is read: it may be written again.
  if (writer_.set_consumed(other_.page().consumed.load(std::memory_order_acquire))) return true;
  close();
  return false;
}

packet::Passage Link::passage() const {
  const std::uint64_t told =
      other_ ? other_.page().consumed.load(std::memory_order_relaxed) : writer_.consumed();
  return {.written = writer_.written(),
          .taken = std::min(told, writer_.written()),
          .received = reader_ ? reader_->position() : 0,
          .back_room = kMostRingBytes,
          .unread = ready(),
          .unopened = !complete()};
}

bool Link::say_starved() {
  starved_ = true;
  starved_at_ = writer_.consumed();
  Page& page = own_.page();
  if ((page.sleep.load(std::memory_order_relaxed) & 1) == 0) return false;
  // Another thread of this process sleeps, and hasn't asked to hear of room.
  page.starved.store(1, std::memory_order_relaxed);
  full_fence();
  return has_news();
}

bool Link::grow(std::size_t bytes) {
  if (!own_.allocate(bytes)) return false;
  writer_.grow(bytes);
  return true;
}

std::optional<packet::Datagram> Link::next() {
  const auto record = at_end() ? std::nullopt : reader_->next();
  if (!record) return std::nullopt;
  auto body = record->body;
  const RecordHeader& header = record->header;
  packet::Datagram d;
  d.source_port = header.source_port;
  d.traffic_class = header.traffic_class;
  d.hop_limit = header.hop_limit != 0 ? header.hop_limit : kHopLimit;
  if ((header.flags & RecordHeader::kAddresses) != 0 && body.size() >= sizeof received_) {
    std::memcpy(&received_, body.data(), sizeof received_);
    body = body.subspan(sizeof received_);
  }
  d.source = IpAddress{received_.source};
  d.destination = IpAddress{received_.destination};
  body = body.subspan(std::min<std::size_t>(header.gap, body.size()));
  d.bytes = body.first(std::min<std::size_t>(header.frame, body.size()));
  return d;
}

bool Link::release() {
  if (!reader_) return false;
  own_.page().consumed.store(reader_->position(), std::memory_order_release);
  if (reader_->position() - looked_at_ < kRoomBytes) return false;
  looked_at_ = reader_->position();
  released_ = true;
  return true;
}

void Link::wake_other() {
  const bool published = std::exchange(published_, false);
  const bool released = std::exchange(released_, false);
  if (!other_ || !(published || released)) return;
  const Page& page = other_.page();
  const std::uint32_t sleep = page.sleep.load(std::memory_order_relaxed);
  const bool asleep = (sleep & 1) != 0;
  if (!asleep || sleep == rung_for_) return;
  if (!published && page.starved.load(std::memory_order_relaxed) == 0) return;
  rung_for_ = sleep;
  const std::uint64_t one = 1;
  // It can't fail but by an overflow, and then the bell rings already.
  [[maybe_unused]] const auto n = kernel::write(bell_.get(), &one, sizeof one);
}

void Link::say_asleep() {
  Page& page = own_.page();
  page.starved.store(starved_ ? 1 : 0, std::memory_order_relaxed);
  const std::uint32_t now = page.sleep.load(std::memory_order_relaxed);
  if ((now & 1) == 0) page.sleep.store(now + 1, std::memory_order_relaxed);
}

void Link::say_awake() {
  Page& page = own_.page();
  const std::uint32_t now = page.sleep.load(std::memory_order_relaxed);
  if ((now & 1) != 0) page.sleep.store(now + 1, std::memory_order_relaxed);
}

bool Link::has_news() {
  if (ready()) return true;
  if (!starved_ || !other_) return false;
  if (other_.page().consumed.load(std::memory_order_relaxed) == starved_at_) return false;
  starved_ = false;  // who waits for room looks now, and says so again if it isn't enough
  return true;
}

void flush(std::span<Link* const> links) {
  for (Link* link : links) link->publish();
  full_fence();
  for (Link* link : links) link->wake_other();
}

bool may_sleep(std::span<Link* const> links) {
  for (Link* link : links) link->say_asleep();
  full_fence();
  return std::ranges::none_of(links, [](Link* link) { return link->has_news(); });
}

}  // namespace verbena::wire::shm
