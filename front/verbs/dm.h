#pragma once

// Device memory: ours is the process's, too, but programs reach it through the verbs only.

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"

namespace verbena::front {

/// What one allocation may have, and all of a process together.
inline constexpr std::size_t kMaxDeviceMemory = std::size_t{1} << 20;

struct DeviceMemory {
  explicit DeviceMemory(std::size_t length, std::size_t alignment);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::size_t length;
  std::byte* bytes;
  std::atomic<unsigned> regions{0};
};

struct Dm : ibv_dm {
  std::shared_ptr<DeviceMemory> memory;  // shared with handles that were imported
};

[[nodiscard]] inline Dm& dm_of(ibv_dm* dm) { return static_cast<Dm&>(*dm); }

/// A handle on the context's list.
[[nodiscard]] Dm* add_dm(ibv_context* context, std::shared_ptr<DeviceMemory> memory,
                         std::uint32_t handle);

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length,
                  unsigned access);

/// EBUSY while it is registered.
Status destroy(Dm* dm);
/// Forgets the handle, whoever else has one.
void forget(Dm* dm);

}  // namespace verbena::front
