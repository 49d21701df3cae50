// Host memory that the driver knows: pinned when allocated, or registered later.

#include <sys/mman.h>

#include <cstdio>
#include <memory>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/ranges.h"

namespace stand_in {
namespace {

struct Protection {
  bool mapped = false;    // all of it
  bool writable = false;  // all of it
};

/// As /proc/self/maps has it.
Protection protection_of(std::uint64_t start, std::uint64_t end) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps{std::fopen("/proc/self/maps", "re"),
                                                             std::fclose};
  if (!maps) die("can't read /proc/self/maps", start);
  bool writable = true;
  unsigned long long from = 0;
  unsigned long long to = 0;
  char access[5] = "";
  char rest[4096];
  while (std::fscanf(maps.get(), "%llx-%llx %4s", &from, &to, access) == 3 &&
         std::fgets(rest, sizeof rest, maps.get()) != nullptr) {
    if (to <= start) continue;
    if (from > start || access[0] != 'r') return {};
    if (access[1] != 'w') writable = false;
    if (to >= end) return {true, writable};
    start = to;
  }
  return {};
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuMemHostAlloc(void** address, std::size_t size, unsigned) {
  return call("cuMemHostAlloc", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    if (address == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
    void* at = mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = at;
    const std::lock_guard hold{ranges().lock};
    ranges().add({.start = reinterpret_cast<std::uint64_t>(at),
                  .size = size,
                  .kind = Kind::pinned,
                  .context = context,
                  .device = context->device});
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void* address) {
  return call("cuMemFreeHost", [&]() -> CUresult {
    drain_everything();
    Range freed;
    if (!remove_range(reinterpret_cast<std::uint64_t>(address), Kind::pinned, freed))
      return CUDA_ERROR_INVALID_VALUE;
    munmap(address, whole_pages(freed.size));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  return call("cuMemHostRegister", [&]() -> CUresult {
    const auto [context, error] = current();
    if (error != CUDA_SUCCESS) return error;
    const auto start = reinterpret_cast<std::uint64_t>(address);
    if (address == nullptr || size == 0 || start + size < start || (flags & ~15u) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    check_registered();
    const std::lock_guard hold{ranges().lock};
    if (ranges().overlaps(start, size)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    const Protection protection = protection_of(start, start + size);
    const bool read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    if (!protection.mapped || (!protection.writable && !read_only)) return CUDA_ERROR_INVALID_VALUE;
    ranges().add({.start = start,
                  .size = size,
                  .kind = Kind::registered,
                  .context = context,
                  .device = context->device,
                  .read_only = read_only});
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostUnregister(void* address) {
  return call("cuMemHostUnregister", [&]() -> CUresult {
    if (const auto now = current(); now.error != CUDA_SUCCESS) return now.error;
    check_registered();
    drain_everything();
    Range gone;
    return remove_range(reinterpret_cast<std::uint64_t>(address), Kind::registered, gone)
               ? CUDA_SUCCESS
               : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
  return call("cuMemHostGetDevicePointer", [&]() -> CUresult {
    const auto address = reinterpret_cast<std::uint64_t>(host);
    const auto range = find(address);
    if (device == nullptr || flags != 0 || !range || !on_host(range->kind))
      return CUDA_ERROR_INVALID_VALUE;
    *device = address;
    return CUDA_SUCCESS;
  });
}
