#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "engine/copies.h"
#include "engine/counters.h"
#include "engine/event.h"
#include "engine/key_table.h"
#include "engine/observer.h"
#include "engine/paces.h"
#include "engine/shared_receive_queue.h"

namespace verbena::engine {

/// What the handlers of a queue pair need of the RNIC.
struct Services {
  KeyTable& keys;
  Copies copies;
  const std::unordered_map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>>& srqs;  // by number
  Paces paces{};                                // of UC and UD
  Counters counters;                            // of no queue pair, or of one that is gone
  std::vector<CompletionQueue*> notifications;  // each once
  std::vector<CompletionQueue*> moderated;      // that had a due() when they came here
  std::vector<Event> events;
  std::vector<Segment> segments;     // scratch of resolve(); has room for every gather list
  std::uint32_t receive_buffer = 0;  // of our sockets, in truesize; 0: not known
  Observer* observer = nullptr;      // nullptr: nobody looks
  Instant now{};                     // of the call that is at work
  bool caller_takes_events = false;  // who makes this call sleeps for completions otherwise

  /// Raises the events that are due.
  void expire_moderated() {
    if (!moderated.empty()) raise_due();
  }
  void raise_due();

  // All have their room since the queues were made (see Rnic::make_room_for_queues).
  void notify(CompletionQueue& cq);
  /// At its due().
  void notify_later(CompletionQueue& cq);
  /// One that finds no room because nobody takes events off, and no memory either, is counted.
  void raise(const Event& event);
};

}  // namespace verbena::engine
