// Contexts come and go; the memory of a destroyed one is unknown.

#include "tests/unit/stand_in/gpu.h"

namespace stand_in {
namespace {

using Contexts = Gpu;

TEST_F(Contexts, ADestroyedOneTakesItsMemoryWithIt) {
  const CUdeviceptr address = allocate(64);
  CUdeviceptr pool = 0;
  CUDA_OK(cuMemAllocAsync(&pool, 64, stream));
  void* pinned = nullptr;
  CUDA_OK(cuMemHostAlloc(&pinned, 64, 0));
  stand_in_forget(context);
  expect_unknown(address);
  expect_unknown(reinterpret_cast<CUdeviceptr>(pinned));
  EXPECT_EQ(type_of(pool), 2u) << "a pool belongs to the GPU";
  unsigned long long id = 0;
  EXPECT_EQ(cuCtxGetId(context, &id), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  std::uint8_t byte = 0;
  EXPECT_EQ(cuMemcpyDtoH_v2(&byte, pool, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_F(Contexts, HaveIdsThatAreNotUsedAgain) {
  unsigned long long first = 0;
  unsigned long long second = 0;
  CUDA_OK(cuCtxGetId(context, &first));
  CUcontext primary = nullptr;
  CUDA_OK(cuDevicePrimaryCtxRetain(&primary, 0));
  CUDA_OK(cuCtxGetId(primary, &second));
  EXPECT_NE(first, second);
  CUDA_OK(cuDevicePrimaryCtxReset_v2(0));
  EXPECT_EQ(cuCtxPushCurrent_v2(primary), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  CUDA_OK(cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, primary);
  unsigned long long third = 0;
  CUDA_OK(cuCtxGetId(again, &third));
  EXPECT_GT(third, second);
  CUDA_OK(cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(Contexts, AreForgottenByPlan) {
  const CUdeviceptr address = allocate(64);
  std::uint8_t byte = 0;
  stand_in_fail("cuMemcpyDtoHAsync:2:forget");
  CUDA_OK(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream));
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  expect_unknown(address);
}

using ContextsDeathTest = Contexts;

TEST_F(ContextsDeathTest, AbortsIfADestroyedOneIsPushed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        stand_in_forget(context);
        static_cast<void>(cuCtxPushCurrent_v2(context));
      },
      "a destroyed context is made current");
}

TEST(Driver, WithoutAGpuSaysSo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        stand_in_devices(0);
        std::exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Driver, SaysHowManyGpusItHas) {
  stand_in_devices(2);
  CUDA_OK(cuInit(0));
  int count = 0;
  CUDA_OK(cuDeviceGetCount(&count));
  EXPECT_EQ(count, 2);
  CUdevice second = -1;
  CUDA_OK(cuDeviceGet(&second, 1));
  EXPECT_EQ(cuDeviceGet(&second, 2), CUDA_ERROR_INVALID_DEVICE);
  stand_in_devices(1);
}

TEST(DriverDeathTest, AbortsAtAPlanThatItCantRead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(stand_in_fail("cuMemAlloc:often:2"), "isn't as control.h says");
  EXPECT_DEATH(stand_in_fail("cuMemAlloc"), "isn't as control.h says");
}

}  // namespace
}  // namespace stand_in
