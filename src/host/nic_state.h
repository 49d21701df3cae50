#pragma once

// What is behind host/nic.h. Private to nic*.cc.

#include <memory>
#include <new>

#include "base/result.h"
#include "host/clock.h"
#include "host/devices/device_monitor.h"
#include "host/heap_trimmer.h"
#include "host/nic.h"
#include "host/progress/event_wait.h"
#include "host/progress/nic_thread.h"
#include "host/shard.h"

namespace verbena::host {

/// The shard, the devices, and the thread that serves both.
class Nic::State final : NicThread::Work {
 public:
  static Result<std::unique_ptr<State>> create();

  State(std::unique_ptr<DeviceMonitor> monitor, ShardParts parts);
  Status start();

  // Who serves what. One shard serves everything today, and only these functions know it.

  /// Protection domains and XRC domains that are made now, and what will be made in them.
  [[nodiscard]] Shard& shard_for_new() { return shard_; }
  /// A queue, a domain, or the key of a region or window.
  template <typename Object>
  [[nodiscard]] Shard& shard_of(const Object&) {
    return shard_;
  }
  /// Queue pair 1, the connections, the ports of rdma_cm, and the addresses that are open.
  [[nodiscard]] Shard& gsi_shard() { return shard_; }
  template <typename F>
  void for_each_shard(F&& f) {
    f(shard_);
  }

  [[nodiscard]] DeviceMonitor& monitor() { return *monitor_; }
  [[nodiscard]] NicThread& thread() { return thread_; }
  [[nodiscard]] EventWait& event_wait() { return event_wait_; }
  /// Told of each queue pair that is made or destroyed.
  [[nodiscard]] HeapTrimmer& trimmer() { return trimmer_; }

  /// In a forked child, with the shards locked: closes what it inherited.
  void abandon();

 private:
  /// When to try again after a lack of memory.
  static constexpr Duration kMemoryPause = std::chrono::milliseconds{1};

  // NicThread::Work
  Outcome work(bool control) override;
  bool arrived() override { return shard_.arrived(); }
  bool may_sleep() override { return shard_.may_sleep(); }

  const std::unique_ptr<DeviceMonitor> monitor_;  // has a lock of its own
  HeapTrimmer trimmer_;
  NicThread thread_;
  Shard shard_;
  EventWait event_wait_{shard_, thread_};
};

}  // namespace verbena::host
