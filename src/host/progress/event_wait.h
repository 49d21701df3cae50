#pragma once

// A program that sleeps in ibv_get_cq_event for what other processes of the host send needs one
// wake-up, not two: its own thread watches the bell of the rings, and receives what arrives, in the
// NIC thread's place. One thread at a time; others sleep on the descriptor of their channel.

#include <mutex>

#include "base/result.h"
#include "host/events/completion_channel.h"
#include "host/progress/nic_thread.h"
#include "host/shard.h"

namespace verbena::host {

class EventWait {
 public:
  EventWait(Shard& shard, NicThread& thread) : shard_{shard}, thread_{thread} {}
  EventWait(const EventWait&) = delete;
  EventWait& operator=(const EventWait&) = delete;

  /// An eventfd that other processes write to, and that a read waits for; -1: there is none.
  void set_bell(int bell) { bell_ = bell; }

  /// As CompletionChannel::get(). A thread may be cancelled in it.
  [[nodiscard]] Result<CompletionQueue*> get(CompletionChannel& channel);
  /// Before a channel goes. Whoever still sleeps for its events sleeps on.
  void forget(const CompletionChannel& channel);

 private:
  class Relief;

  enum class Wake : std::uint8_t { bell, signal, channel_gone };
  [[nodiscard]] Wake sleep(CompletionChannel& channel);

  Shard& shard_;
  NicThread& thread_;
  int bell_ = -1;
  std::mutex mutex_;
  const CompletionChannel* slept_for_ = nullptr;  // nullptr: it is gone, or nobody sleeps
};

}  // namespace verbena::host
