// What the driver says about a pointer.

#include <cstring>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/memory.h"

namespace stand_in {
namespace {

template <typename T>
CUresult put(void* value, T what) {
  std::memcpy(value, &what, sizeof what);
  return CUDA_SUCCESS;
}

/// The answer for a pointer that the driver doesn't know.
CUresult put_unknown(void* value, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(value, 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(value, -2);
    default:
      return put(value, std::uint64_t{0});
  }
}

CUresult put_known(void* value, CUpointer_attribute attribute, const Range& range,
                   std::uint64_t address) {
  const auto* mapping = range.mapping_of(address);
  const bool host = on_host(range.kind);
  const bool visible = host || (mapping != nullptr && mapping->second.access);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(value, range.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(value,
                 host && range.kind != Kind::managed ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(value, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return host ? put(value, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(value, range.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(value, range.kind == Kind::managed ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(value, range.device);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return put(value, 0u);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put(value, range.kind == Kind::device ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(value, range.start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(value, range.size);
    case CU_POINTER_ATTRIBUTE_MAPPED:  // four bytes, as the driver writes it
      return put(value, host || mapping != nullptr ? 1u : 0u);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(value, std::uint64_t{range.kind == Kind::reservation ? 1u : 0u});
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(value, host ? 0u : 1u);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(value, visible ? 3u : 0u);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(value, std::uint64_t{range.kind == Kind::pool ? 1u : 0u});
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(value, mapping == nullptr ? range.size : mapping->second.size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(value, mapping == nullptr ? range.start : mapping->first);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(value, mapping == nullptr ? range.id : mapping->second.memory->id());
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/// A reservation without memory at this address is unknown, but for its extent.
bool nothing_there(const Range& range, std::uint64_t address, CUpointer_attribute attribute) {
  return range.kind == Kind::reservation && range.mapping_of(address) == nullptr &&
         attribute != CU_POINTER_ATTRIBUTE_RANGE_START_ADDR &&
         attribute != CU_POINTER_ATTRIBUTE_RANGE_SIZE;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return call("cuPointerGetAttribute", [&]() -> CUresult {
    const auto range = find(address);
    if (value == nullptr || !range || nothing_there(*range, address, attribute))
      return CUDA_ERROR_INVALID_VALUE;
    return put_known(value, attribute, *range, address);
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  return call("cuPointerGetAttributes", [&]() -> CUresult {
    if (count == 0 || attributes == nullptr || values == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto range = find(address);
    for (unsigned i = 0; i < count; ++i) {
      if (attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
          attributes[i] > CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
        return CUDA_ERROR_INVALID_VALUE;
      // What a pointer hasn't is null, not an error.
      if (!range || nothing_there(*range, address, attributes[i]) ||
          put_known(values[i], attributes[i], *range, address) != CUDA_SUCCESS)
        put_unknown(values[i], attributes[i]);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  return call("cuMemGetAddressRange", [&]() -> CUresult {
    const auto range = find(address);
    if (!range) return CUDA_ERROR_NOT_FOUND;
    std::uint64_t start = range->start;
    std::uint64_t length = range->size;
    if (!on_host(range->kind)) {
      const auto* mapping = range->mapping_of(address);
      if (mapping == nullptr || !mapping->second.access) return CUDA_ERROR_NOT_FOUND;
      start = mapping->first;
      length = mapping->second.size;
    }
    if (base != nullptr) *base = start;
    if (size != nullptr) *size = length;
    return CUDA_SUCCESS;
  });
}
