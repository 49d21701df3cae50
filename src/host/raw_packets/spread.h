#pragma once

#include <vector>

#include "engine/queue_pair.h"
#include "packet/receive_hash.h"

namespace verbena::host {

/// Frames of one queue pair spread over many receive queues, each of which is a raw packet queue
/// pair of the engine's that sends nothing.
struct Spread {
  packet::ReceiveHash hash;
  std::vector<engine::QueuePair*> queues;  // a power of two

  [[nodiscard]] engine::QueuePair& choose(std::span<const std::uint8_t> frame) const {
    return *queues[hash.of(packet::FrameHeaders{frame}) & (queues.size() - 1)];
  }
};

}  // namespace verbena::host
