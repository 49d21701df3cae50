// Device memory, pool memory and managed memory.

#include <sys/mman.h>

#include <new>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/ranges.h"

namespace stand_in {

bool remove_range(std::uint64_t start, Kind kind, Range& removed) {
  const std::lock_guard hold{ranges().lock};
  const auto found = ranges().by_start.find(start);
  if (found == ranges().by_start.end() || found->second.kind != kind) return false;
  removed = std::move(found->second);
  ranges().by_start.erase(found);
  if (kind == Kind::device || kind == Kind::pool)
    ranges().give_addresses_back(removed.start, removed.size);
  return true;
}

namespace {

CUresult allocate(CUdeviceptr* address, std::size_t size, Kind kind, CUcontext context,
                  CUdevice device) {
  if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  try {
    const auto memory = std::make_shared<Physical>(size);
    const std::lock_guard hold{ranges().lock};
    const std::uint64_t start = ranges().take_addresses(size);
    if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    Range range{.start = start, .size = size, .kind = kind, .context = context, .device = device};
    range.mappings[start] = {.size = size, .offset = 0, .memory = memory, .access = true};
    ranges().add(std::move(range));
    *address = start;
    return CUDA_SUCCESS;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size) {
  return call("cuMemAlloc", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    return allocate(address, size, Kind::device, context, context->device);
  });
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  return call("cuMemFree", [&]() -> CUresult {
    if (const auto now = current(); now.error != CUDA_SUCCESS) return now.error;
    if (address == 0) return CUDA_SUCCESS;
    drain_everything();  // cuMemFree() waits for the GPU
    Range freed;
    if (remove_range(address, Kind::device, freed) || remove_range(address, Kind::pool, freed))
      return CUDA_SUCCESS;
    if (!remove_range(address, Kind::managed, freed)) return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void*>(freed.start), whole_pages(freed.size));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size, unsigned) {
  return call("cuMemAllocManaged", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    void* at = mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<std::uint64_t>(at);
    const std::lock_guard hold{ranges().lock};
    ranges().add({.start = *address,
                  .size = size,
                  .kind = Kind::managed,
                  .context = context,
                  .device = context->device});
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size, CUstream stream) {
  return call("cuMemAllocAsync", [&]() -> CUresult {
    const Chosen chosen = choose(stream);
    if (chosen.error != CUDA_SUCCESS) return chosen.error;
    return allocate(address, size, Kind::pool, nullptr, chosen.stream->context->device);
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return call("cuMemFreeAsync", [&]() -> CUresult {
    const Chosen chosen = choose_for_work(stream);
    if (chosen.error != CUDA_SUCCESS) return chosen.error;
    const auto range = find(address);
    if (!range || range->start != address || range->kind != Kind::pool)
      return CUDA_ERROR_INVALID_VALUE;
    const bool taken = chosen.stream->add([address] {
      Range freed;
      if (!remove_range(address, Kind::pool, freed)) die("memory is freed twice", address);
    });
    return taken ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  });
}
