#pragma once

// A file that is being received: its bytes and its journal, both in the hidden folder. Chunks may
// be stored by several threads at once.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tools/transfer/chunk_hash.h"
#include "tools/transfer/folder.h"
#include "tools/transfer/journal.h"
#include "tools/transfer/messages.h"

namespace verbena::transfer {

class PartFile {
 public:
  /// Continues what an earlier run left of the same source, or begins anew. Throws
  /// std::system_error.
  PartFile(Folder& folder, const Entry& entry, std::uint32_t chunk_size);

  [[nodiscard]] const Chunks& chunks() const { return chunks_; }
  /// "" or what the earlier run left, for people.
  [[nodiscard]] const std::string& note() const { return note_; }
  /// Of chunks that are there, by their numbers; a hash of zeros stands for one that isn't.
  [[nodiscard]] std::vector<Hash> hashes() const;
  [[nodiscard]] bool has_any() const { return present_count_ > 0; }

  /// Throws Malformed for a chunk that the file doesn't have, std::system_error.
  void store(std::uint64_t chunk, std::span<const std::byte> bytes, const Hash& hash);
  void store_holes(std::uint64_t first, std::uint64_t count);

  /// "" or why the file can't be placed: chunks are missing, or the root is another one.
  [[nodiscard]] std::string problem_with(const Hash& root) const;
  /// Makes the bytes last, gives them mode, time and name. Afterwards nothing is left here.
  void place(const Place& place, bool replace, bool sync);
  /// Removes it with its journal.
  void discard();
  /// Removes what an earlier run may have left of this path.
  static void discard(Folder& folder, const std::string& path);

 private:
  enum class State : std::uint8_t { absent, writing, present };

  [[nodiscard]] bool resume(const JournalHeader& wanted);
  void begin(const JournalHeader& header);
  void verify_claims();
  void claim(std::uint64_t chunk, std::size_t length);
  void settle(std::uint64_t chunk, const Hash& hash);
  void append(const std::vector<std::byte>& record) const;
  void write_bytes(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void write_sparsely(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void make_hole(std::uint64_t offset, std::uint64_t length) const;

  Folder& folder_;
  Entry entry_;
  Chunks chunks_;
  std::string part_name_, journal_name_;
  Descriptor part_, journal_;
  std::string note_;
  bool resumed_ = false;  // bytes that the journal doesn't know may be in it
  mutable std::mutex lock_;
  std::vector<State> states_;
  std::vector<Hash> leaves_;
  std::atomic<std::uint64_t> present_count_ = 0;
};

}  // namespace verbena::transfer
