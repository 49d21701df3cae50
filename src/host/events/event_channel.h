#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "base/result.h"
#include "host/events/event_tokens.h"

namespace verbena::host {

class EventChannel;

/// Something that asynchronous events can be about. What the program knows it by derives from this,
/// and outlives its part in the engine.
struct EventSource {
  EventChannel* listener = nullptr;  // nullptr: nobody listens
  unsigned events_taken = 0;         // the channel's: those that the program got
};

/// What happened that no completion tells.
struct AsyncEvent {
  std::uint8_t kind = 0;          // numbered as ibv_event_type
  EventSource* source = nullptr;  // nullptr: the port
};

/// Where the asynchronous events of an open device wait. Its descriptor polls readable while
/// one does.
class EventChannel {
 public:
  static Result<EventChannel*> create();

  [[nodiscard]] int fd() const { return tokens_.fd(); }

  /// Any thread. An event of the port that waits already is moved to the end: a program that
  /// doesn't listen doesn't gather them. Without memory the event is lost, as the kernel's would
  /// be, and counted.
  void raise(const AsyncEvent& event) noexcept;
  [[nodiscard]] std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }
  /// Takes the oldest event, and counts it in its source. Blocks as the descriptor's flags say.
  /// EAGAIN, EINTR.
  [[nodiscard]] Result<AsyncEvent> get();
  /// Events of `source` that nobody took are forgotten. Returns how many were taken, ever: none
  /// will be any more.
  unsigned forget(const EventSource& source);

 private:
  EventChannel() = default;
  void add(const AsyncEvent& event);

  std::mutex mutex_;
  EventTokens tokens_;  // one for each event that waits, but for one that a get() has in its hand
  std::deque<AsyncEvent> events_;
  std::atomic<std::uint64_t> lost_{0};
};

/// Ends the events of `source`, which may be nullptr. Returns how many the program took.
inline unsigned forget_events(const EventSource* source) {
  const bool heard = source != nullptr && source->listener != nullptr;
  return heard ? source->listener->forget(*source) : 0;
}

}  // namespace verbena::host
