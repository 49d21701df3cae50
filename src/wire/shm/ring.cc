#include "wire/shm/ring.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace verbena::wire::shm {
namespace {

/// The word that publishes a record.
std::atomic_ref<std::uint32_t> size_of(RecordHeader* header) {
  return std::atomic_ref{header->size};
}

}  // namespace

RingWriter::Rooms RingWriter::reserve(std::size_t bytes, std::size_t count) {
  reserved_ = 0;
  const std::size_t size = record_size(0, bytes);
  std::size_t to_end = capacity_ - head_;
  const bool past_end = size + kAlignment > to_end;
  // What was written in the turn before may still be unread up to the old end.
  if (past_end && wanted_ > capacity_ && usable() + kAlignment >= to_end) {
    capacity_ = wanted_;
    to_end = capacity_ - head_;
  }
  const bool wraps = size + kAlignment > to_end;
  const std::size_t skipped = wraps ? to_end : 0;
  if (skipped + size > usable()) return {};
  const std::size_t at = wraps ? 0 : head_;
  count = std::min({count, (usable() - skipped) / size, (capacity_ - kAlignment - at) / size});
  reserved_at_ = at;
  reserved_size_ = size;
  reserved_ = count;
  return {ring_.data() + at + sizeof(RecordHeader), size, count};
}

void RingWriter::put(std::size_t at, RecordHeader header) {
  RecordHeader* const place = header_at(at);
  const std::uint32_t size = header.size;
  const bool first = first_size_ == 0;
  if (first) {
    first_ = at;
    first_size_ = size;
    header.size = 0;
  }
  // The rest of the header; its size on its own, because a reader may be looking at it.
  std::memcpy(reinterpret_cast<std::uint8_t*>(place) + sizeof header.size,
              reinterpret_cast<const std::uint8_t*>(&header) + sizeof header.size,
              sizeof header - sizeof header.size);
  if (!first) size_of(place).store(size, std::memory_order_relaxed);
  end_ += size;
  head_ = at + size;
}

void RingWriter::commit(RecordHeader header) {
  if (reserved_ == 0) return;
  --reserved_;
  if (reserved_at_ != head_) {
    put(head_,
        {.size = static_cast<std::uint32_t>(capacity_ - head_), .flags = RecordHeader::kWrap});
  }
  header.size = static_cast<std::uint32_t>(reserved_size_);
  put(reserved_at_, header);
  reserved_at_ += reserved_size_;
}

bool RingWriter::publish() {
  if (first_size_ == 0) return false;
  size_of(header_at(head_)).store(0, std::memory_order_relaxed);
  size_of(header_at(first_)).store(first_size_, std::memory_order_release);
  first_size_ = 0;
  published_ = end_;
  return true;
}

bool RingWriter::set_consumed(std::uint64_t consumed) {
  if (consumed - consumed_ > published_ - consumed_) return false;
  consumed_ = consumed;
  return true;
}

std::uint32_t RingReader::size_at(std::size_t offset) const {
  auto* const word = const_cast<std::uint8_t*>(ring_.data() + offset);
  return std::atomic_ref{*reinterpret_cast<std::uint32_t*>(word)}.load(std::memory_order_acquire);
}

bool RingReader::ready() const { return !broken_ && size_at(offset_) != 0; }

std::optional<RingReader::Record> RingReader::next() {
  for (bool wrapped = false; !broken_; wrapped = true) {
    const std::uint32_t size = size_at(offset_);
    if (size == 0) return std::nullopt;
    const std::size_t left = ring_.size() - offset_;
    if (size % kAlignment != 0 || size > left) break;
    Record record;
    std::memcpy(&record.header, ring_.data() + offset_, sizeof record.header);
    record.header.size = size;
    position_ += size;
    const bool wraps = (record.header.flags & RecordHeader::kWrap) != 0;
    // Only `wrap` ends at the end, and it comes once a turn.
    if (wraps ? wrapped : size == left) break;
    const std::size_t body = offset_ + sizeof(RecordHeader);
    offset_ = wraps ? 0 : offset_ + size;
    if (wraps) continue;
    // The one behind the next, if they are of a size. Each line comes from another core.
    if (offset_ + size < ring_.size()) __builtin_prefetch(ring_.data() + offset_ + size);
    record.body = ring_.subspan(body, size - sizeof(RecordHeader));
    return record;
  }
  broken_ = true;
  return std::nullopt;
}

}  // namespace verbena::wire::shm
