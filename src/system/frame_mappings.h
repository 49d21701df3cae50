#pragma once

// Mappings of this process that frames lie in: its frame buffers, and the rings between processes.
// A device that copies frames by itself pins them first, and lets go before they are unmapped.

#include <cstddef>
#include <cstdint>

namespace verbena {

struct FrameMapping {
  std::uint8_t* base = nullptr;
  std::size_t bytes = 0;
  bool writable = false;
};

/// How a device pins. Called with a lock held: neither function may come back here.
struct FramePinner {
  /// False: it can't; nobody tries again.
  bool (*pin)(const FrameMapping& mapping);
  void (*unpin)(const FrameMapping& mapping);
};

// Any thread.

/// Behind mmap(). Without memory for the note, the mapping is never pinned.
void note_frame_mapping(const FrameMapping& mapping) noexcept;
/// Before munmap().
void forget_frame_mapping(const std::uint8_t* base) noexcept;
/// The mapping that a byte lies in, if it does, is pinned by the first that asks. `pinner` lives as
/// long as the process.
void pin_frame_mapping_of(const void* byte, const FramePinner& pinner) noexcept;

/// In a forked child, which has none of them.
void forget_frame_mappings_after_fork() noexcept;

}  // namespace verbena
