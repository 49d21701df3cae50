#pragma once

// What a transfer has done so far, for the screen. Written by all its threads.

#include <atomic>
#include <cstdint>

namespace verbena::transfer {

struct Tally {
  std::atomic<std::uint64_t> entries_total = 0;
  std::atomic<std::uint64_t> bytes_total = 0;
  std::atomic<std::uint64_t> placed = 0;        // entries
  std::atomic<std::uint64_t> identical = 0;     // entries that were there already
  std::atomic<std::uint64_t> skipped = 0;       // entries that the receiver keeps as they are
  std::atomic<std::uint64_t> failed = 0;        // entries
  std::atomic<std::uint64_t> bytes_sent = 0;    // over the network, each time
  std::atomic<std::uint64_t> bytes_resent = 0;  // of these, because a hash was wrong
  std::atomic<std::uint64_t> bytes_holes = 0;   // of sparse files
  std::atomic<std::uint64_t> bytes_kept = 0;    // verified, and not sent
};

}  // namespace verbena::transfer
