#include "memory/cuda/gpu_memory.h"

#include <fmt/format.h>

#include <cerrno>

namespace verbena::memory::cuda {

bool GpuMemory::holds(std::uint64_t address) {
  const Driver* const driver = Driver::loaded();
  return driver != nullptr && look_up(*driver, address).on_device();
}

verbena::Result<Lane*> GpuMemory::lane_of(const Driver& driver, const Pointer& pointer) {
  Context context = pointer.context;
  // Memory of a pool, or mapped: any context will do, and the primary one isn't destroyed while
  // somebody retains it.
  if (context == nullptr) {
    Context& primary = primaries_[pointer.device];
    const Result r =
        primary == nullptr ? driver.retain_primary(&primary, pointer.device) : kSuccess;
    if (r != kSuccess) {
      return Error{ENODEV, fmt::format("the primary context of GPU {}: {}", pointer.device,
                                       driver.name_of(r))};
    }
    context = primary;
  }
  // A context that is destroyed leaves its address to another one, but not its number.
  unsigned long long id = reinterpret_cast<std::uintptr_t>(context);
  if (driver.context_id != nullptr) driver.context_id(context, &id);
  if (const auto known = lanes_.find(id); known != lanes_.end()) return &known->second;
  auto lane = Lane::open(driver, context);
  if (!lane) return lane.error();
  return &lanes_.emplace(id, *lane).first->second;
}

verbena::Result<Dma*> GpuMemory::find(const Segment& range) {
  std::erase_if(buffers_, [](const auto& entry) { return !entry.second.is_registered(); });
  const Driver& driver = *Driver::loaded();
  const Pointer pointer = look_up(driver, range.address);
  if (!pointer.on_device()) {
    return Error{EFAULT, fmt::format("the GPU memory at {:#x} was freed", range.address)};
  }
  const auto lane = lane_of(driver, pointer);
  if (!lane) return lane.error();
  Buffer& buffer =
      buffers_.try_emplace(pointer.buffer, driver, **lane, pointer.buffer).first->second;
  if (const Status ready = buffer.prepare(range, true); !ready) return ready.error();
  return &buffer;
}

}  // namespace verbena::memory::cuda
