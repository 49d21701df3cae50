#pragma once

#include <mutex>

#include "base/result.h"

namespace verbena::host {

struct CompletionQueue;

/// Where a program sleeps until a completion queue has something. Its descriptor polls
/// readable while an event waits.
class CompletionChannel {
 public:
  static Result<CompletionChannel*> create();
  ~CompletionChannel();
  CompletionChannel(const CompletionChannel&) = delete;
  CompletionChannel& operator=(const CompletionChannel&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  /// Any thread. Needs no memory: a program that sleeps for the event would never wake.
  void raise(CompletionQueue& cq);
  /// Takes an event, those of several queues in turn, and counts it in its queue. Blocks as the
  /// descriptor's flags say. EAGAIN, EINTR.
  [[nodiscard]] Result<CompletionQueue*> get();
  /// Events of `cq` that nobody took are forgotten. Returns how many were taken, ever: none
  /// will be any more.
  unsigned forget(CompletionQueue& cq);

 private:
  explicit CompletionChannel(int fd) : fd_{fd} {}
  void append(CompletionQueue& cq);

  const int fd_;  // eventfd, semaphore; may count more than the queue holds, never less
  std::mutex mutex_;
  // Queues with events that nobody took, linked through them.
  CompletionQueue* first_ = nullptr;
  CompletionQueue* last_ = nullptr;
};

}  // namespace verbena::host
