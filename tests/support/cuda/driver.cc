// The driver itself: version, errors, devices.

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "tests/support/cuda/calls.h"

namespace stand_in {
namespace {

struct Error {
  CUresult value;
  const char* name;
  const char* text;
};
constexpr Error kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult describe(CUresult error, const char** result, const char* Error::*what) {
  const auto* found = std::ranges::find(kErrors, error, &Error::value);
  *result = found == std::end(kErrors) ? nullptr : found->*what;
  return *result == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

struct Attribute {
  int name;
  int value;
};
constexpr int kPciBus = 33;
constexpr Attribute kAttributes[] = {
    {1, 1024},     // threads per block
    {16, 8},       // multiprocessors
    {kPciBus, 1},  // and the device's ordinal
    {34, 0},       // PCI device
    {41, 1},       // unified addressing
    {50, 0},       // PCI domain
    {75, 9},       // compute capability, major
    {76, 0},       // and minor
    {83, 1},       // managed memory
    {88, 0},       // pageable memory access
    {92, 1},       // stream memory operations
    {93, 1},       // of 64 bits
    {99, 1},       // host memory can be registered
    {102, 1},      // virtual memory management
    {110, 1},      // GPUDirect RDMA with it
    {113, 1},      // read-only host memory can be registered
    {115, 1},      // memory pools
    {116, 1},      // GPUDirect RDMA
    {117, 1},      // its writes are flushed by the host
    {118, 100},    // writes are ordered for the owner
    {122, 1},      // 64-bit stream operations
    {124, 1},      // dma-bufs
};

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuInit(unsigned flags) {
  return call(
      "cuInit", [&]() -> CUresult { return flags == 0 ? initialise() : CUDA_ERROR_INVALID_VALUE; },
      Needs::nothing);
}

CUresult cuDriverGetVersion(int* version) {
  return call(
      "cuDriverGetVersion",
      [&]() -> CUresult {
        *version = 13000;
        return CUDA_SUCCESS;
      },
      Needs::nothing);
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  return describe(error, name, &Error::name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return describe(error, text, &Error::text);
}

CUresult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", [&]() -> CUresult {
    *count = devices();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call("cuDeviceGet", [&]() -> CUresult {
    if (ordinal < 0 || ordinal >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  return call("cuDeviceGetName", [&]() -> CUresult {
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "stand-in for a GPU %d", device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return call("cuDeviceGetAttribute", [&]() -> CUresult {
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    const auto* found = std::ranges::find(kAttributes, attribute, &Attribute::name);
    if (found == std::end(kAttributes)) return CUDA_ERROR_INVALID_VALUE;
    *value = found->value + (attribute == kPciBus ? device : 0);
    return CUDA_SUCCESS;
  });
}
