#pragma once

#include <mutex>
#include <thread>

#include "base/result.h"
#include "host/events/event_tokens.h"

namespace verbena::host {

struct CompletionQueue;

/// Where a program sleeps until a completion queue has something. Its descriptor polls
/// readable while an event waits.
class CompletionChannel {
 public:
  static Result<CompletionChannel*> create();

  [[nodiscard]] int fd() const { return tokens_.fd(); }

  /// Any thread. Needs no memory: a program that sleeps for the event would never wake.
  void raise(CompletionQueue& cq);
  /// Takes an event, those of several queues in turn, and counts it in its queue. Blocks as the
  /// descriptor's flags say. EAGAIN, EINTR.
  [[nodiscard]] Result<CompletionQueue*> get();

  // For the one thread that makes progress itself before it sleeps in get()
  // (progress/event_wait.h).

  /// get() would sleep: nothing is there, and the descriptor's flags allow it.
  [[nodiscard]] bool would_sleep();
  /// The next event that this thread raises is for itself: it goes to handed_over().
  void expect();
  /// Ends that. nullptr: this thread has raised none.
  [[nodiscard]] CompletionQueue* handed_over();
  /// From now on, an event rings this bell, too, once. False: one is there already.
  [[nodiscard]] bool set_bell(int bell);
  void clear_bell();

  /// Events of `cq` that nobody took are forgotten. Returns how many were taken, ever: none
  /// will be any more.
  unsigned forget(CompletionQueue& cq);

 private:
  CompletionChannel() = default;
  void append(CompletionQueue& cq);

  std::mutex mutex_;
  int bell_ = -1;
  std::thread::id expected_by_{};           // {}: nobody
  CompletionQueue* handed_over_ = nullptr;  // to that thread
  EventTokens tokens_;  // one for each event that waits, but for one that a get() has in its hand
  // Queues with events that nobody took, linked through them.
  CompletionQueue* first_ = nullptr;
  CompletionQueue* last_ = nullptr;
};

}  // namespace verbena::host
