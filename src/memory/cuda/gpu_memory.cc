#include "memory/cuda/gpu_memory.h"

#include <fmt/format.h>

#include <cerrno>

namespace verbena::memory::cuda {

constinit std::atomic<bool> GpuMemory::was_registered_{false};

bool GpuMemory::holds(std::uint64_t address) {
  const Driver* const driver = Driver::loaded();
  return driver != nullptr && look_up(*driver, address).on_device();
}

/// Memory of a pool, or mapped: any context of its GPU will do, and nobody destroys the primary one
/// while it is retained. It may be reset, though.
verbena::Result<Lane*> GpuMemory::primary_lane_of(const Driver& driver, Device device) {
  const auto known = primaries_.find(device);
  if (known != primaries_.end() && known->second->is_alive()) return known->second;
  Context context = nullptr;
  if (const Result r = driver.retain_primary(&context, device); r != kSuccess) {
    return Error{ENODEV,
                 fmt::format("the primary context of GPU {}: {}", device, driver.name_of(r))};
  }
  auto lane = lane_of(driver, context);
  if (lane) primaries_[device] = *lane;
  return lane;
}

verbena::Result<Lane*> GpuMemory::lane_of(const Driver& driver, Context context) {
  // A context that is destroyed leaves its address to another one, but not its number.
  unsigned long long id = reinterpret_cast<std::uintptr_t>(context);
  if (driver.context_id != nullptr) driver.context_id(context, &id);
  const auto known = lanes_.find(id);
  if (known != lanes_.end() && known->second.is_alive()) return &known->second;
  const auto lane = Lane::open(driver, context);
  if (!lane) return lane.error();
  return &lanes_.insert_or_assign(id, *lane).first->second;
}

verbena::Result<Dma*> GpuMemory::find(const Segment& range) {
  std::erase_if(buffers_, [](const auto& entry) { return !entry.second.is_registered(); });
  const Driver& driver = *Driver::loaded();
  const Pointer pointer = look_up(driver, range.address);
  if (!pointer.on_device() || pointer.buffer == 0) {
    return Error{EFAULT, fmt::format("the GPU memory at {:#x} was freed", range.address)};
  }
  const auto lane = pointer.context != nullptr ? lane_of(driver, pointer.context)
                                               : primary_lane_of(driver, pointer.device);
  if (!lane) return lane.error();
  Buffer& buffer =
      buffers_.try_emplace(pointer.buffer, driver, **lane, pointer.buffer).first->second;
  if (const Status ready = buffer.prepare(range, true); !ready) return ready.error();
  was_registered_.store(true, std::memory_order_relaxed);
  return &buffer;
}

}  // namespace verbena::memory::cuda
