#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace verbena::front {

/// A registration of memory that a descriptor names, as ibv_reg_dmabuf_mr() does it.
///
///   `iova` lies in memory of a GPU of this program ──► that memory: the descriptor adds nothing
///   else: a dma-buf that can be mapped             ──► our own mapping of it
[[nodiscard]] Result<ibv_mr*> register_dmabuf(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                              std::uint64_t iova, int descriptor, unsigned access);

}  // namespace verbena::front
