#include "tools/transfer/outgoing_file.h"

#include <unistd.h>

#include <algorithm>

namespace verbena::transfer {

void JobQueue::add(std::shared_ptr<OutgoingFile> file) {
  {
    const std::lock_guard guard{lock_};
    jobs_.push_back({std::move(file), 0});
  }
  changed_.notify_all();
}

std::optional<Job> JobQueue::take(bool wait) {
  std::unique_lock guard{lock_};
  while (!closed_) {
    while (!jobs_.empty()) {
      Job& front = jobs_.front();
      const std::uint64_t count = front.file->chunks.count();
      while (front.chunk < count && front.file->is_hole[front.chunk]) ++front.chunk;
      if (front.chunk < count) {
        Job job = front;
        ++front.chunk;
        return job;
      }
      jobs_.pop_front();
    }
    if (!wait) return std::nullopt;
    changed_.wait(guard);
  }
  return std::nullopt;
}

void JobQueue::close() {
  {
    const std::lock_guard guard{lock_};
    closed_ = true;
  }
  changed_.notify_all();
}

void JobQueue::sleep_until(std::chrono::steady_clock::time_point when) {
  std::unique_lock guard{lock_};
  changed_.wait_until(guard, when, [&] { return closed_.load(); });
}

void find_holes(OutgoingFile& file) {
  const std::uint64_t count = file.chunks.count();
  file.is_hole.assign(count, false);
  if (file.entry.sparse == 0) return;
  file.is_hole.assign(count, true);
  const auto size = static_cast<off_t>(file.chunks.file_size);
  for (off_t at = 0; at < size;) {
    const off_t data = lseek(file.fd.get(), at, SEEK_DATA);
    if (data < 0) {
      if (errno == ENXIO) return;  // a hole up to the end
      file.is_hole.assign(count, false);
      return;
    }
    const off_t end = lseek(file.fd.get(), data, SEEK_HOLE);
    const off_t stop = end < 0 ? size : std::min(end, size);
    if (data >= stop) return;
    const auto chunk_of = [&](off_t byte) {
      return static_cast<std::uint64_t>(byte) / file.chunks.chunk_size;
    };
    for (std::uint64_t chunk = chunk_of(data); chunk <= chunk_of(stop - 1); ++chunk) {
      file.is_hole[chunk] = false;
    }
    at = stop;
  }
}

}  // namespace verbena::transfer
