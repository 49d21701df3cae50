#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "host/nic.h"
#include "system/dma_buf.h"

namespace verbena::front {

struct DeviceMemory;

struct Mr : ibv_mr {
  host::Nic* nic = nullptr;
  Key key;
  std::shared_ptr<DeviceMemory> dm;  // that it is a registration of
  std::shared_ptr<DmaBuf> dma_buf;   // likewise, where that is mapped
};

/// EINVAL: rights that don't exist, or that need others.
[[nodiscard]] Status check_access(unsigned access);

/// A registration of the program's memory, as ibv_reg_mr_iova() does it.
[[nodiscard]] Result<ibv_mr*> register_memory(ibv_pd* pd, void* address, std::size_t length,
                                              std::uint64_t iova, unsigned access);

/// A registration that `make` does; `addr` is NULL.
using MakeRegion = std::function<Result<engine::MemoryRegion>(host::Nic& nic, engine::PdId pd)>;
[[nodiscard]] Result<Mr*> make_mr(ibv_pd* pd, const MakeRegion& make);

ibv_mr* alloc_null_mr(ibv_pd* pd);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);
/// EINVAL for rights that device memory can't be registered with.
Status check_dm_access(unsigned access);

Status destroy(Mr* mr);
/// Forgets it, and leaves the registration alone.
void forget(Mr* mr);

}  // namespace verbena::front
