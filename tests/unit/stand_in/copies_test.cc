// Copies are late, in order, and as wrong as a test asks for.

#include <atomic>
#include <string>
#include <thread>

#include "tests/unit/stand_in/gpu.h"

namespace stand_in {
namespace {

using Copies = Gpu;

TEST_F(Copies, AreDoneAfterASynchronisationAndNotBefore) {
  stand_in_delay(999'999);
  const CUdeviceptr address = allocate(100);
  const auto bytes = numbers(100);
  CUDA_OK(cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  stand_in_delay(0);
  CUDA_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
  std::vector<std::uint8_t> back(100);
  CUDA_OK(cuMemcpyDtoHAsync_v2(back.data(), address, back.size(), stream));
  CUDA_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(back, bytes);
}

TEST_F(Copies, StayInsideOneAllocation) {
  const CUdeviceptr address = allocate(100);
  std::vector<std::uint8_t> bytes(101);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, bytes.data(), 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD_v2(address - 1, bytes.data(), 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH_v2(reinterpret_cast<void*>(address), address, 1),
            CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cuMemcpyHtoD_v2(address + 99, bytes.data(), 1));
}

TEST_F(Copies, OfRowsLeaveWhatIsBetweenThem) {
  constexpr std::size_t kRows = 5;
  const CUdeviceptr address = allocate(kRows * 64);
  const auto bytes = numbers(kRows * 64);
  CUDA_OK(cuMemcpyHtoD_v2(address, bytes.data(), bytes.size()));
  std::vector<std::uint8_t> frames(3 + kRows * 100, 0xee);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address;
  copy.srcPitch = 64;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = frames.data() + 3;
  copy.dstPitch = 100;
  copy.WidthInBytes = 64;
  copy.Height = kRows;
  CUDA_OK(cuMemcpy2DAsync_v2(&copy, stream));
  CUDA_OK(cuStreamSynchronize(stream));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const std::size_t row = (i - 3) / 100;
    const std::size_t column = (i - 3) % 100;
    ASSERT_EQ(frames[i], i >= 3 && column < 64 ? bytes[row * 64 + column] : 0xee) << i;
  }
  std::swap(copy.srcMemoryType, copy.dstMemoryType);
  copy.srcHost = copy.dstHost;
  copy.dstDevice = copy.srcDevice;
  std::swap(copy.srcPitch, copy.dstPitch);
  CUDA_OK(cuMemsetD8_v2(address, 0, kRows * 64));
  CUDA_OK(cuMemcpy2DAsync_v2(&copy, stream));
  CUDA_OK(cuStreamSynchronize(stream));
  std::vector<std::uint8_t> back(kRows * 64);
  CUDA_OK(cuMemcpyDtoH_v2(back.data(), address, back.size()));
  EXPECT_EQ(back, bytes);
}

TEST_F(Copies, NeedTheContextOfTheirStream) {
  const CUdeviceptr address = allocate(64);
  std::uint8_t byte = 0;
  CUcontext none = nullptr;
  CUDA_OK(cuCtxPopCurrent_v2(&none));
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext other = nullptr;
  CUDA_OK(cuCtxCreate_v4(&other, nullptr, 0, 0));
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream), CUDA_ERROR_INVALID_HANDLE);
  CUDA_OK(cuCtxDestroy_v2(other));
  CUDA_OK(cuCtxPushCurrent_v2(context));
  CUDA_OK(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream));
  CUDA_OK(cuStreamSynchronize(stream));
}

TEST_F(Copies, ValuesAreWrittenInTheirTurn) {
  void* pinned = nullptr;
  CUDA_OK(cuMemHostAlloc(&pinned, 4096, 0));
  const std::atomic_ref flag{*static_cast<std::uint64_t*>(pinned)};
  CUdeviceptr place = 0;
  CUDA_OK(cuMemHostGetDevicePointer_v2(&place, pinned, 0));
  const CUdeviceptr address = allocate(4096);
  const auto bytes = numbers(4096);
  std::vector<std::uint8_t> back(4096);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::fill(back.begin(), back.end(), 0);
    CUDA_OK(cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), stream));
    CUDA_OK(cuMemcpyDtoHAsync_v2(back.data(), address, back.size(), stream));
    CUDA_OK(cuStreamWriteValue64_v2(stream, place, round, 0));
    while (flag.load() != round) std::this_thread::yield();
    ASSERT_EQ(back, bytes);
  }
  EXPECT_EQ(cuStreamWriteValue64_v2(stream, place + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cuStreamWriteValue32_v2(stream, place + 4, 1, 0));
  CUDA_OK(cuStreamSynchronize(stream));
  EXPECT_EQ(flag.load() >> 32, 1u);
}

TEST_F(Copies, FailByPlan) {
  const CUdeviceptr address = allocate(64);
  std::uint8_t byte = 3;
  const auto before = stand_in_calls("cuMemcpyHtoD");
  stand_in_fail("cuMemcpyHtoD:2:999,cuStreamSynchronize:*:700");
  EXPECT_EQ(cuMemcpyHtoD_v2(address, &byte, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, &byte, 1), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cuMemcpyHtoD_v2(address, &byte, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(stand_in_calls("cuMemcpyHtoD"), before + 3);
}

TEST_F(Copies, HaveOneWrongByteByPlan) {
  const CUdeviceptr address = allocate(64);
  const auto bytes = numbers(64);
  stand_in_fail("cuMemcpyHtoD:1:flip");
  CUDA_OK(cuMemcpyHtoD_v2(address, bytes.data(), 64));
  std::vector<std::uint8_t> back(64);
  CUDA_OK(cuMemcpyDtoH_v2(back.data(), address, 64));
  int wrong = 0;
  for (std::size_t i = 0; i < 64; ++i) wrong += back[i] != bytes[i];
  EXPECT_EQ(wrong, 1);
}

TEST_F(Copies, StreamsOfManyThreadsDontDisturbEachOther) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([i, this] {
      CUDA_OK(cuCtxPushCurrent_v2(context));
      CUstream mine = nullptr;
      CUDA_OK(cuStreamCreate(&mine, CU_STREAM_NON_BLOCKING));
      const auto bytes = numbers(1000, i);
      std::vector<std::uint8_t> back(1000);
      for (int round = 0; round < 20; ++round) {
        const CUdeviceptr address = allocate(1000);
        CUDA_OK(cuMemcpyHtoDAsync_v2(address, bytes.data(), 1000, mine));
        CUDA_OK(cuMemcpyDtoHAsync_v2(back.data(), address, 1000, mine));
        CUDA_OK(cuStreamSynchronize(mine));
        ASSERT_EQ(back, bytes);
        CUDA_OK(cuMemFree_v2(address));
      }
      CUDA_OK(cuStreamDestroy_v2(mine));
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace stand_in
