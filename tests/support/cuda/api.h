#pragma once

// The part of CUDA's driver API that the stand-in has: declarations of our own, with the names,
// values and sizes of the driver's ABI (CUDA 13.0). What the functions do stands in README.md.

#include <cstddef>
#include <cstdint>

#define STAND_IN_EXPORT extern "C" __attribute__((visibility("default")))

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemGenericAllocationHandle = unsigned long long;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_CONTEXT = 1,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
  CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
  CU_POINTER_ATTRIBUTE_MAPPED = 13,
  CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
  CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
  CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
  CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
  CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
  CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
};

enum CUmemorytype : unsigned {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMORYTYPE_UNIFIED = 4,
};

enum : unsigned {
  CU_STREAM_NON_BLOCKING = 1,
  CU_MEMHOSTREGISTER_READ_ONLY = 8,
  CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1,
};

struct CUDA_MEMCPY2D {
  std::size_t srcXInBytes, srcY;
  CUmemorytype srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes, dstY;
  CUmemorytype dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes, Height;
};

struct CUmemLocation {
  int type;  // 1: a device
  int id;
};
struct CUmemAllocationProp {
  int type;                  // 1: pinned
  int requestedHandleTypes;  // 1: a file descriptor
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;  // 0: none, 1: read, 3: read and write
};

// The driver, devices and errors.
STAND_IN_EXPORT CUresult cuInit(unsigned flags);
STAND_IN_EXPORT CUresult cuDriverGetVersion(int* version);
STAND_IN_EXPORT CUresult cuGetErrorName(CUresult error, const char** name);
STAND_IN_EXPORT CUresult cuGetErrorString(CUresult error, const char** text);
STAND_IN_EXPORT CUresult cuDeviceGetCount(int* count);
STAND_IN_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal);
STAND_IN_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device);
STAND_IN_EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device);

// Contexts.
STAND_IN_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
STAND_IN_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
STAND_IN_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
STAND_IN_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
STAND_IN_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device);
STAND_IN_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, void* parameters, unsigned flags,
                                        CUdevice device);
STAND_IN_EXPORT CUresult cuCtxDestroy_v2(CUcontext context);
STAND_IN_EXPORT CUresult cuCtxSetCurrent(CUcontext context);
STAND_IN_EXPORT CUresult cuCtxGetCurrent(CUcontext* context);
STAND_IN_EXPORT CUresult cuCtxGetDevice(CUdevice* device);
STAND_IN_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context);
STAND_IN_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context);
STAND_IN_EXPORT CUresult cuCtxGetId(CUcontext context, unsigned long long* id);
STAND_IN_EXPORT CUresult cuCtxSynchronize();

// Memory.
STAND_IN_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size);
STAND_IN_EXPORT CUresult cuMemFree_v2(CUdeviceptr address);
STAND_IN_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t size, unsigned flags);
STAND_IN_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t size, CUstream stream);
STAND_IN_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
STAND_IN_EXPORT CUresult cuMemHostAlloc(void** address, std::size_t size, unsigned flags);
STAND_IN_EXPORT CUresult cuMemFreeHost(void* address);
STAND_IN_EXPORT CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags);
STAND_IN_EXPORT CUresult cuMemHostUnregister(void* address);
STAND_IN_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host,
                                                      unsigned flags);
STAND_IN_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                     const CUmemAllocationProp* properties,
                                     unsigned long long flags);
STAND_IN_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
STAND_IN_EXPORT CUresult cuMemGetAllocationGranularity(std::size_t* granularity,
                                                       const CUmemAllocationProp* properties,
                                                       int option);
STAND_IN_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size,
                                             std::size_t alignment, CUdeviceptr wish,
                                             unsigned long long flags);
STAND_IN_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size);
STAND_IN_EXPORT CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long flags);
STAND_IN_EXPORT CUresult cuMemUnmap(CUdeviceptr address, std::size_t size);
STAND_IN_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size,
                                        const CUmemAccessDesc* access, std::size_t count);
STAND_IN_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address,
                                                       std::size_t size, int type,
                                                       unsigned long long flags);

// What a pointer is.
STAND_IN_EXPORT CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                                               CUdeviceptr address);
STAND_IN_EXPORT CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                                void** values, CUdeviceptr address);
STAND_IN_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size,
                                                 CUdeviceptr address);

// Streams, copies and kernels.
STAND_IN_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags);
STAND_IN_EXPORT CUresult cuStreamDestroy_v2(CUstream stream);
STAND_IN_EXPORT CUresult cuStreamSynchronize(CUstream stream);
STAND_IN_EXPORT CUresult cuStreamQuery(CUstream stream);
STAND_IN_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode);
STAND_IN_EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t size);
STAND_IN_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t size);
STAND_IN_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size);
STAND_IN_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size,
                                              CUstream stream);
STAND_IN_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size,
                                              CUstream stream);
STAND_IN_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size,
                                              CUstream stream);
STAND_IN_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream);
STAND_IN_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t size);
STAND_IN_EXPORT CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to,
                                                 std::uint32_t value, unsigned flags);
STAND_IN_EXPORT CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr to,
                                                 std::uint64_t value, unsigned flags);
STAND_IN_EXPORT CUresult cuModuleLoadData(CUmodule* module, const void* image);
STAND_IN_EXPORT CUresult cuModuleUnload(CUmodule module);
STAND_IN_EXPORT CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                                             const char* name);
STAND_IN_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                        unsigned grid_z, unsigned block_x, unsigned block_y,
                                        unsigned block_z, unsigned shared_bytes, CUstream stream,
                                        void** parameters, void** extra);
