#pragma once

// NVIDIA's GPUs. Another maker's would be a class beside this one, asked by host/nic_memory.cc.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "memory/cuda/buffer.h"
#include "memory/cuda/lane.h"

namespace verbena::memory::cuda {

/// The GPU memory that the program has registered.
class GpuMemory {
 public:
  /// The address lies in memory that only the GPU can reach. Managed and pinned memory is the
  /// program's own. Any thread.
  [[nodiscard]] static bool holds(std::uint64_t address);
  /// Some was registered in this process, by whomever. Any thread, and cheap.
  [[nodiscard]] static bool was_registered() {
    return was_registered_.load(std::memory_order_relaxed);
  }

  /// The allocation that the range, of which holds() is true, lies in. It stays as long as a region
  /// is registered in it (Dma::add_region()). EFAULT: it isn't within one. ENODEV: the driver
  /// refuses.
  [[nodiscard]] verbena::Result<Dma*> find(const Segment& range);

 private:
  static std::atomic<bool> was_registered_;

  [[nodiscard]] verbena::Result<Lane*> lane_of(const Driver& driver, Context context);
  [[nodiscard]] verbena::Result<Lane*> primary_lane_of(const Driver& driver, Device device);

  std::map<std::uint64_t, Lane> lanes_;      // by the number of their context; they stay
  std::map<Device, Lane*> primaries_;        // those of primary contexts that we retain
  std::map<std::uint64_t, Buffer> buffers_;  // by their number
};

}  // namespace verbena::memory::cuda
