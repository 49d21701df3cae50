#pragma once

// The process's NIC: the engine and the wire under one lock, and the thread that keeps them
// going when nobody else does.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/spin_lock.h"
#include "engine/rnic.h"
#include "host/completion_channel.h"
#include "host/device.h"

namespace verbena::host {

/// A completion queue and the channel that its events go to.
struct CompletionQueue {
  CompletionQueue(std::uint32_t entries, CompletionChannel* events, void* user_data)
      : ring{entries, this}, channel{events}, user{user_data} {}

  engine::CompletionQueue ring;
  CompletionChannel* const channel;  // may be nullptr
  void* const user;                  // the front's own
  SpinLock polling;                  // one consumer at a time
  unsigned events_taken = 0;         // the channel's
  std::atomic<unsigned> vain_polls{0};
};

class Nic {
 public:
  /// Started by the first call. After fork() the child's first call starts a new one; objects
  /// of the parent's are then only good for being forgotten.
  static Result<Nic*> instance();

  // Set-up. Thread-safe.

  [[nodiscard]] Result<engine::PdId> alloc_pd();
  Status dealloc_pd(engine::PdId pd);
  /// EFAULT where the program itself couldn't read (or, with a write access, write) the range.
  [[nodiscard]] Result<engine::MemoryRegion> register_memory(engine::PdId pd,
                                                             engine::Segment memory,
                                                             std::uint64_t iova, unsigned access);
  Status deregister_memory(Key key);
  [[nodiscard]] Result<CompletionQueue*> create_cq(std::uint32_t entries,
                                                   CompletionChannel* channel, void* user);
  /// EINVAL when more completions wait than would fit.
  Status resize_cq(CompletionQueue& cq, std::uint32_t entries);
  /// EBUSY while a queue pair uses it.
  Status destroy_cq(CompletionQueue* cq);
  [[nodiscard]] Result<engine::QueuePair*> create_qp(const engine::QpInit& init);
  /// Resolves attributes.path with the device's GIDs and opens what the path needs.
  Status modify_qp(engine::QueuePair& qp, const Device& device, engine::QpAttributes attributes,
                   unsigned mask);
  /// `state` is the present one, whatever was set last.
  [[nodiscard]] engine::QpAttributes query_qp(const engine::QueuePair& qp);
  Status destroy_qp(engine::QueuePair* qp);

  // The data path. Thread-safe; never waits for the engine.

  [[nodiscard]] engine::PostResult post_send(engine::QueuePair& qp, const engine::SendRequest& r);
  [[nodiscard]] engine::PostResult post_receive(engine::QueuePair& qp,
                                                const engine::ReceiveRequest& r);
  /// After a list of post_send(): sends at once if the engine is free, else whoever has it will.
  void kick();
  /// Makes progress when there is nothing to take.
  [[nodiscard]] std::size_t poll(CompletionQueue& cq, std::span<engine::Completion> out);
  /// The program is about to sleep: one event at the next completion (or solicited one).
  void arm(CompletionQueue& cq, bool solicited_only);

 private:
  class Impl;
  explicit Nic(std::unique_ptr<Impl> impl);
  ~Nic();
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::host
