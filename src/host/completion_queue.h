#pragma once

#include <cstdint>

#include "base/spin_lock.h"
#include "engine/completion_queue.h"
#include "host/events/completion_channel.h"
#include "host/events/event_channel.h"

namespace verbena::host {

/// The engine's completion queue, and the channel that its events go to. The host's RNIC has no
/// others.
struct CompletionQueue : engine::CompletionQueue {
  CompletionQueue(std::uint32_t entries, CompletionChannel* completions, EventSource* source,
                  Overrun overrun = Overrun::fails)
      : engine::CompletionQueue{entries, overrun}, channel{completions}, events{source} {}

  // On another cache line than what the engine writes with each completion.
  alignas(64) CompletionChannel* const channel;  // may be nullptr
  EventSource* const events;                     // nullptr: nobody wants to hear of it
  SpinLock polling;                              // one consumer at a time
  // These three belong to the channel.
  unsigned events_taken = 0;
  unsigned events_waiting = 0;
  CompletionQueue* next_waiting = nullptr;
};

[[nodiscard]] inline CompletionQueue& host_of(engine::CompletionQueue& cq) {
  return static_cast<CompletionQueue&>(cq);
}

}  // namespace verbena::host
