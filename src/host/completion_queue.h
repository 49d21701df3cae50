#pragma once

#include <atomic>
#include <cstdint>

#include "base/spin_lock.h"
#include "engine/completion_queue.h"
#include "host/events/completion_channel.h"
#include "host/events/event_channel.h"

namespace verbena::host {

/// A completion queue and the channel that its events go to.
struct CompletionQueue {
  using Overrun = engine::CompletionQueue::Overrun;
  CompletionQueue(std::uint32_t entries, CompletionChannel* completions, EventSource source,
                  Overrun overrun = Overrun::fails)
      : ring{entries, this, overrun}, channel{completions}, events{source} {}

  engine::CompletionQueue ring;
  CompletionChannel* const channel;  // may be nullptr
  EventSource events;
  SpinLock polling;  // one consumer at a time
  // These three belong to the channel.
  unsigned events_taken = 0;
  unsigned events_waiting = 0;
  CompletionQueue* next_waiting = nullptr;

  std::atomic<unsigned> vain_polls{0};
};

}  // namespace verbena::host
