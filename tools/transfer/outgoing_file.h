#pragma once

// A file that is being sent, and the queue of chunks that the sender's threads take from.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tools/transfer/chunk_hash.h"
#include "tools/transfer/descriptor.h"
#include "tools/transfer/messages.h"

namespace verbena::transfer {

struct OutgoingFile {
  Entry entry;
  Descriptor fd;
  Chunks chunks;

  // Settled before the chunks are queued.
  std::vector<Hash> have;     // of the receiver; zeros: it hasn't got the chunk
  std::vector<bool> is_hole;  // these chunks aren't queued
  bool compare = false;       // nothing is sent

  // Of the threads; each chunk is one thread's at a time.
  std::vector<Hash> leaves;
  std::atomic<std::uint64_t> unsettled = 0;  // chunks
  std::atomic<std::uint64_t> kept = 0;       // bytes that the receiver has
  std::atomic<bool> differs = false;         // from what the receiver has
  std::atomic<bool> cancelled = false;       // the receiver doesn't want it any more

  void fail(const std::string& why) {
    const std::lock_guard guard{lock_};
    if (problem_.empty()) problem_ = why;
    cancelled = true;
  }
  [[nodiscard]] std::string problem() const {
    const std::lock_guard guard{lock_};
    return problem_;
  }

 private:
  mutable std::mutex lock_;
  std::string problem_;
};

struct Job {
  std::shared_ptr<OutgoingFile> file;
  std::uint64_t chunk = 0;
};

class JobQueue {
 public:
  /// All chunks of it that are no holes.
  void add(std::shared_ptr<OutgoingFile> file);
  /// nullopt: there is none, or the end has come. `wait`: until there is one.
  [[nodiscard]] std::optional<Job> take(bool wait);
  void close();
  [[nodiscard]] bool closed() const { return closed_; }
  /// Until then, or until the end has come.
  void sleep_until(std::chrono::steady_clock::time_point when);

 private:
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the next chunk of each file
  std::atomic<bool> closed_ = false;
};

/// Finds the chunks that are holes as a whole. Without help of the file system there are none.
void find_holes(OutgoingFile& file);

}  // namespace verbena::transfer
