#pragma once

// Commands that newer kernels than the oldest headers that we build with have. Layouts and numbers
// of rdma_user_cm.h, in our own words.

#include <cstddef>
#include <cstdint>

namespace verbena::front::ucma {

inline constexpr std::uint32_t kQueryIbService = 3;  // RDMA_USER_CM_QUERY_IB_SERVICE

/// rdma_ucm_write_cm_event, without what only other events than these have.
struct WriteCmEvent {
  std::uint32_t id;
  std::uint32_t reserved;
  std::uint32_t event;
  std::uint32_t status;
  std::uint64_t argument;
};

/// The beginning of rdma_ucm_resolve_ib_service.
struct ResolveIbService {
  std::uint32_t id;
  std::uint32_t reserved;
};
/// All of it: the service follows.
inline constexpr std::size_t kResolveIbServiceSize = sizeof(ResolveIbService) + 8 + 64 + 8;

}  // namespace verbena::front::ucma
