#pragma once

// The journal beside an incomplete file: which of its chunks are there, with their hashes. A record
// is written after the bytes of its chunk, and a chunk that is to be written anew is struck out
// first, so that the journal claims only what is in the file, whenever the process dies.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/transfer/chunk_hash.h"

namespace verbena::transfer {

/// What the file is. Another source, or another cut, and the journal is of no use.
struct JournalHeader {
  std::uint64_t size = 0;
  std::uint32_t chunk_size = 0;
  std::int64_t seconds = 0;  // the source's last modification
  std::uint32_t nanoseconds = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::string path;
  /// Of the running system. What it wrote may not all have reached the disk when it fell.
  std::string boot;

  void fields(auto& field) {
    field(size), field(chunk_size), field(seconds), field(nanoseconds), field(device);
    field(inode), field(path), field(boot);
  }
  [[nodiscard]] bool same_source(const JournalHeader& other) const {
    return size == other.size && seconds == other.seconds && nanoseconds == other.nanoseconds &&
           device == other.device && inode == other.inode;
  }
};

struct Journal {
  JournalHeader header;
  std::map<std::uint64_t, Hash> chunks;
  std::size_t valid_size = 0;  // what follows was torn off by the death of its writer
};

[[nodiscard]] std::vector<std::byte> encode_journal_header(const JournalHeader& header);
inline constexpr std::size_t kJournalRecordSize = 32;
/// nullopt strikes the chunk out.
[[nodiscard]] std::vector<std::byte> encode_journal_record(std::uint64_t chunk,
                                                           const std::optional<Hash>& hash);

/// nullopt: no journal, or one whose beginning is damaged.
[[nodiscard]] std::optional<Journal> read_journal(std::span<const std::byte> bytes);

}  // namespace verbena::transfer
