// Memory whose addresses are managed apart from it (cuMemCreate, cuMemMap), and dma-bufs.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <new>
#include <string>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/ranges.h"

namespace stand_in {
namespace {

/// Guarded by the lock of ranges().
std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>>& handles() {
  static auto& only = *new std::map<CUmemGenericAllocationHandle, std::shared_ptr<Physical>>;
  return only;
}

/// What is mapped of [address, address + size), if the mappings fill it exactly.
std::vector<std::uint64_t> mappings_of(const Range& range, std::uint64_t address,
                                       std::uint64_t size) {
  std::vector<std::uint64_t> found;
  std::uint64_t at = address;
  for (auto m = range.mappings.find(address); m != range.mappings.end() && m->first == at; ++m) {
    if (at >= address + size) break;
    found.push_back(at);
    at += m->second.size;
  }
  return at == address + size ? found : std::vector<std::uint64_t>{};
}

Range* reservation_of(std::uint64_t address, std::uint64_t size) {
  Range* range = ranges().of(address);
  if (range == nullptr || range->kind != Kind::reservation) return nullptr;
  return size > range->end() - address ? nullptr : range;
}

/// A descriptor that a program can keep, send and close; mmap() of it fails, as of a dma-buf that
/// the driver exports. -1: none.
int unmappable_descriptor(std::size_t size) {
  const int descriptor = memfd_create("dmabuf:", MFD_CLOEXEC);
  if (descriptor < 0) return -1;
  int result = -1;
  if (ftruncate(descriptor, static_cast<off_t>(size)) == 0) {
    // mmap() needs a descriptor that can be read, even for PROT_NONE.
    const std::string name = "/proc/self/fd/" + std::to_string(descriptor);
    result = open(name.c_str(), O_WRONLY | O_CLOEXEC);
  }
  close(descriptor);
  return result;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp*, int) {
  return call("cuMemGetAllocationGranularity", [&]() -> CUresult {
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                     const CUmemAllocationProp* properties, unsigned long long) {
  return call("cuMemCreate", [&]() -> CUresult {
    if (handle == nullptr || properties == nullptr || properties->type != 1 ||
        properties->location.type != 1 || size == 0 || size % kGranularity != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.id < 0 || properties->location.id >= devices())
      return CUDA_ERROR_INVALID_DEVICE;
    try {
      auto memory = std::make_shared<Physical>(size);
      const std::lock_guard hold{ranges().lock};
      *handle = memory->id();
      handles()[*handle] = std::move(memory);
      return CUDA_SUCCESS;
    } catch (const std::bad_alloc&) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call("cuMemRelease", [&]() -> CUresult {
    const std::lock_guard hold{ranges().lock};
    return handles().erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment,
                             CUdeviceptr, unsigned long long) {
  return call("cuMemAddressReserve", [&]() -> CUresult {
    if (address == nullptr || size == 0 || size % kGranularity != 0 || alignment > kGranularity)
      return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard hold{ranges().lock};
    const std::uint64_t start = ranges().take_addresses(size);
    if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    ranges().add({.start = start, .size = size, .kind = Kind::reservation});
    *address = start;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  return call("cuMemAddressFree", [&]() -> CUresult {
    const std::lock_guard hold{ranges().lock};
    const Range* range = ranges().of(address);
    if (range == nullptr || range->kind != Kind::reservation || range->start != address ||
        range->size != size || !range->mappings.empty())
      return CUDA_ERROR_INVALID_VALUE;
    ranges().by_start.erase(address);
    ranges().give_addresses_back(address, size);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return call("cuMemMap", [&]() -> CUresult {
    const std::lock_guard hold{ranges().lock};
    Range* range = reservation_of(address, size);
    const auto memory = handles().find(handle);
    if (range == nullptr || memory == handles().end() || flags != 0 || offset != 0 || size == 0 ||
        size % kGranularity != 0 || address % kGranularity != 0 || size > memory->second->size())
      return CUDA_ERROR_INVALID_VALUE;
    const auto next = range->mappings.lower_bound(address);
    if (range->mapping_of(address) != nullptr ||
        (next != range->mappings.end() && next->first < address + size))
      return CUDA_ERROR_INVALID_VALUE;
    range->mappings[address] = {
        .size = size, .offset = offset, .memory = memory->second, .access = false};
    return CUDA_SUCCESS;
  });
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  return call("cuMemUnmap", [&]() -> CUresult {
    drain_everything();
    const std::lock_guard hold{ranges().lock};
    Range* range = reservation_of(address, size);
    if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto mapped = mappings_of(*range, address, size);
    if (mapped.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (const std::uint64_t at : mapped) range->mappings.erase(at);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* access,
                        std::size_t count) {
  return call("cuMemSetAccess", [&]() -> CUresult {
    const std::lock_guard hold{ranges().lock};
    Range* range = reservation_of(address, size);
    if (range == nullptr || access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    const auto mapped = mappings_of(*range, address, size);
    if (mapped.empty()) return CUDA_ERROR_INVALID_VALUE;
    for (const std::uint64_t at : mapped) range->mappings[at].access = access->flags == 3;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t size,
                                       int type, unsigned long long) {
  return call("cuMemGetHandleForAddressRange", [&]() -> CUresult {
    const auto range = find(address);
    if (handle == nullptr || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || size == 0 ||
        address % kPage != 0 || size % kPage != 0 || !range || on_host(range->kind) ||
        size > whole_pages(range->end() - address))
      return CUDA_ERROR_INVALID_VALUE;
    const auto* mapping = range->mapping_of(address);
    if (mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int descriptor = -1;
    if (dmabufs_can_be_mapped() && mapping->first == address) {
      descriptor = fcntl(mapping->second.memory->descriptor(), F_DUPFD_CLOEXEC, 0);
    } else {
      descriptor = unmappable_descriptor(size);
    }
    if (descriptor < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    *static_cast<int*>(handle) = descriptor;
    return CUDA_SUCCESS;
  });
}
