#pragma once

// A context and a stream on the stand-in's first GPU.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/cuda/control.h"

#define CUDA_OK(call) ASSERT_EQ(call, CUDA_SUCCESS)

namespace stand_in {

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    CUDA_OK(cuInit(0));
    CUDA_OK(cuCtxCreate_v2(&context, 0, 0));
    CUDA_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    stand_in_fail("");
    stand_in_delay(20);
    unsigned long long id = 0;
    if (cuCtxGetId(context, &id) == CUDA_SUCCESS) {
      EXPECT_EQ(cuCtxDestroy_v2(context), CUDA_SUCCESS);
    }
    while (cuCtxPopCurrent_v2(nullptr) == CUDA_SUCCESS) {
    }
  }

  [[nodiscard]] static CUdeviceptr allocate(std::size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, size), CUDA_SUCCESS);
    return address;
  }
  /// What cuPointerGetAttributes() says; `before` fills what it doesn't write.
  template <typename T>
  [[nodiscard]] static T attribute(CUpointer_attribute name, CUdeviceptr address, T before = {}) {
    void* value = &before;
    EXPECT_EQ(cuPointerGetAttributes(1, &name, &value, address), CUDA_SUCCESS);
    return before;
  }
  [[nodiscard]] static unsigned type_of(CUdeviceptr address) {
    return attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  }
  [[nodiscard]] static std::uint64_t id_of(CUdeviceptr address) {
    return attribute<std::uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address);
  }
  static void expect_unknown(CUdeviceptr address) {
    EXPECT_EQ(type_of(address), 0u);
    EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), nullptr);
    EXPECT_EQ(id_of(address), 0u);
    EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address), -2);
    unsigned type = 0;
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
              CUDA_ERROR_INVALID_VALUE);
  }
  [[nodiscard]] static std::vector<std::uint8_t> numbers(std::size_t count, unsigned from = 0) {
    std::vector<std::uint8_t> bytes(count);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(from++ * 7);
    return bytes;
  }

  CUcontext context = nullptr;
  CUstream stream = nullptr;
};

}  // namespace stand_in
