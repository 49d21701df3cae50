#pragma once

// What a process of a pair writes and the other one reads: a page and a ring, in a sealed memfd.
// The writer alone can map it writable; nobody can shrink it under the reader.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "system/fd.h"

namespace verbena::wire::shm {

/// Read by the other process at any time.
struct Page {
  /// How far this process has read the other's ring.
  alignas(64) std::atomic<std::uint64_t> consumed;
  /// Odd: this process sleeps, and wants its bell rung. Counts.
  alignas(64) std::atomic<std::uint32_t> sleep;
  /// It sleeps because its ring is full: it wants to hear of room, too.
  std::atomic<std::uint32_t> starved;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A mapping that ends with it, and that a fork's child doesn't have.
class Segment {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  /// Of the ring. Only what is used has memory.
  static constexpr std::size_t kRingBytes = 4u << 20;
  static constexpr std::size_t kBytes = kPageBytes + kRingBytes;

  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  struct Made;
  /// One of this process, with memory for so much of the ring. `descriptor` is for the other one.
  [[nodiscard]] static Result<Made> create(std::size_t ring_bytes);
  /// That of the other process. EPROTO: not what create() makes.
  [[nodiscard]] static Result<Segment> map(const Fd& descriptor);

  /// Memory for this much of the ring. False: there is none.
  [[nodiscard]] bool allocate(std::size_t ring_bytes) const;

  /// In a forked child, which doesn't have the mapping.
  void abandon() { base_ = nullptr; }

  explicit operator bool() const { return base_ != nullptr; }
  [[nodiscard]] Page& page() const { return *reinterpret_cast<Page*>(base_); }
  [[nodiscard]] std::span<std::uint8_t> ring() const { return {base_ + kPageBytes, kRingBytes}; }

 private:
  explicit Segment(std::uint8_t* base) : base_{base} {}

  std::uint8_t* base_ = nullptr;
};

struct Segment::Made {
  Segment segment;
  Fd descriptor;
};

}  // namespace verbena::wire::shm
