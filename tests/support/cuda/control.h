#pragma once

// What a test can ask of the stand-in besides the driver's calls. A test that links it calls these;
// for other programs most of it can be set in the environment, read at cuInit():
//
//   TEST_CUDA_DEVICES=2   number of GPUs; 0: cuInit() fails with CUDA_ERROR_NO_DEVICE
//   TEST_CUDA_DELAY=100   each copy starts up to that many µs late (20)
//   TEST_CUDA_SEED=7      of those delays (1)
//   TEST_CUDA_FAIL=…      as stand_in_fail()
//   TEST_CUDA_COUNTS=…    file for the number of calls, written at exit as JSON;
//                                 %p in its name becomes the process's id
//   TEST_CUDA_DMABUF=map  descriptors of dma-bufs can be mapped, if they begin where their
//                                 allocation begins

#include "tests/support/cuda/api.h"

/// `plan`: FUNCTION:N:WHAT, separated by commas. FUNCTION without "_v2"; its Nth call from now on,
/// or `*` for each. WHAT: a CUresult that it returns; `flip`: one byte of what it copies is wrong;
/// `forget`: all contexts are destroyed before it. Replaces the plan before; "": no faults.
STAND_IN_EXPORT void stand_in_fail(const char* plan);
STAND_IN_EXPORT void stand_in_delay(unsigned microseconds);
/// Before cuInit().
STAND_IN_EXPORT void stand_in_devices(int count);
/// Calls of a function so far, of this process.
STAND_IN_EXPORT unsigned long long stand_in_calls(const char* function);
/// The context is destroyed, as cuCtxDestroy() and cuDevicePrimaryCtxReset() do it.
STAND_IN_EXPORT void stand_in_forget(CUcontext context);
/// Where the stand-in itself has the byte at this device address; nullptr: nowhere.
STAND_IN_EXPORT void* stand_in_bytes(CUdeviceptr address);
