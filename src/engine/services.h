#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "engine/copies.h"
#include "engine/counters.h"
#include "engine/event.h"
#include "engine/memory.h"
#include "engine/observer.h"
#include "engine/paces.h"
#include "engine/shared_receive_queue.h"
#include "engine/work_request.h"

namespace verbena::engine {

/// What the handlers of a queue pair need of the RNIC.
struct Services {
  KeyTable& keys;
  Dma& dma;
  Copies copies;  // into the program's memory
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

  /// Raises the events that are due.
  void expire_moderated();

  // All have their room since the queues were made (see Rnic::make_room_for_queues).
  void notify(CompletionQueue& cq);
  /// At its due().
  void notify_later(CompletionQueue& cq);
  /// One that finds no room because nobody takes events off, and no memory either, is counted.
  void tell(const Event& event);
};

/// The address ranges of bytes [offset, offset + length) of a gather list. False: a key is
/// wrong, the range is outside its region, or `access` isn't granted (IBA 10.6.3).
[[nodiscard]] bool resolve(const KeyTable& keys, PdId pd, std::span<const Sge> sges,
                           std::uint32_t offset, std::uint32_t length, unsigned access,
                           std::vector<Segment>& out);

}  // namespace verbena::engine
