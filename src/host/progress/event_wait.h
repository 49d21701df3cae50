#pragma once

// Threads of the program that sleep until a ring between processes brings something. They watch the
// bell of the rings, and receive what arrives, in the NIC thread's place: one wake-up, not two. One
// thread at a time.
//
//   get()    ibv_get_cq_event
//   rest()   a program that polls in vain while more threads want to run than there are cores. The
//            scheduler lets a thread that is woken run at once, and one that has yielded wait for
//            its turn.

#include <cstddef>
#include <mutex>

#include "base/result.h"
#include "base/time.h"
#include "host/events/completion_channel.h"
#include "host/progress/nic_thread.h"
#include "host/progress/spare_core.h"
#include "host/shard.h"
#include "system/fd.h"

namespace verbena::host {

class EventWait {
 public:
  [[nodiscard]] static std::size_t online_cores();

  /// The machine is busy when more threads want to run than it has `cores`.
  EventWait(Shard& shard, NicThread& thread, std::size_t cores = online_cores());
  EventWait(const EventWait&) = delete;
  EventWait& operator=(const EventWait&) = delete;

  /// An eventfd that other processes write to, and that a read waits for.
  [[nodiscard]] Status set_bell(int bell);

  /// As CompletionChannel::get(). A thread may be cancelled in it.
  [[nodiscard]] Result<CompletionQueue*> get(CompletionChannel& channel);
  /// Before a channel goes. Whoever still sleeps for its events sleeps on.
  void forget(const CompletionChannel& channel);

  /// Gives the core to others for a moment, unless something comes to this queue meanwhile.
  void rest(Instant now, const engine::CompletionQueue& polled);

  /// In a forked child.
  void abandon();

 private:
  class Relief;

  /// How a thread's watch over the rings has ended.
  struct Watch {
    enum End : std::uint8_t {
      handed_over,  // with an event of `cq`
      event,        // one is in the channel, or may be
      signal,
      channel_gone,
    };
    End end;
    CompletionQueue* cq = nullptr;
  };
  [[nodiscard]] Watch watch_rings(CompletionChannel& channel);
  [[nodiscard]] Watch::End sleep(CompletionChannel& channel);
  [[nodiscard]] bool machine_is_busy(Instant now);

  Shard& shard_;
  NicThread& thread_;
  int bell_ = -1;
  Fd rings_{};  // an epoll set, readable after each ring of the bell
  std::mutex mutex_;
  const CompletionChannel* slept_for_ = nullptr;  // nullptr: it is gone, or nobody sleeps
  std::mutex asking_;
  SpareCore cores_;
};

}  // namespace verbena::host
