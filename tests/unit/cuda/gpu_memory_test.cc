// GPU memory as the device copies it, on the tests' own libcuda.so.1, whose copies take time and
// write their end before their beginning.

#include "memory/cuda/gpu_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include "system/frame_mappings.h"
#include "tests/unit/stand_in/gpu.h"

namespace verbena::memory::cuda {
namespace {

using testing::HasSubstr;

constexpr std::size_t kSize = 1u << 20;
constexpr std::size_t kBlock = 2u << 20;

class CudaGpuMemory : public stand_in::Gpu {
 protected:
  void SetUp() override {
    stand_in::Gpu::SetUp();
    device = allocate(kSize);
    memory = find(device, kSize);
  }

  Dma* find(std::uint64_t address, std::size_t size) {
    const auto found = gpu.find({address, size});
    if (!found) return nullptr;
    (*found)->add_region();
    return *found;
  }
  std::string refusal(std::uint64_t address, std::size_t size) {
    const auto found = gpu.find({address, size});
    EXPECT_FALSE(found.ok());
    if (found) return "";
    EXPECT_EQ(found.error().code, EFAULT);
    return found.error().message;
  }
  [[nodiscard]] Segment at(std::size_t offset, std::size_t size) const {
    return {device + offset, size, memory};
  }
  /// What lies on the GPU now.
  [[nodiscard]] std::vector<std::uint8_t> there(std::size_t offset, std::size_t size) const {
    const auto* const bytes = static_cast<const std::uint8_t*>(stand_in_bytes(device + offset));
    return {bytes, bytes + size};
  }
  bool put(std::size_t offset, const std::vector<std::uint8_t>& bytes) {
    const bool started = memory->scatter(bytes, std::array{at(offset, bytes.size())});
    return memory->finish() && started;
  }

  GpuMemory gpu;
  CUdeviceptr device = 0;
  Dma* memory = nullptr;
};

TEST_F(CudaGpuMemory, IsWhatOnlyTheGpuReaches) {
  EXPECT_TRUE(GpuMemory::holds(device) && GpuMemory::holds(device + kSize - 1));
  CUdeviceptr pooled = 0, managed = 0;
  void* pinned = nullptr;
  CUDA_OK(cuMemAllocAsync(&pooled, 4096, stream));
  CUDA_OK(cuMemAllocManaged(&managed, 4096, 1));
  CUDA_OK(cuMemHostAlloc(&pinned, 4096, 0));
  const std::vector<std::uint8_t> pageable(4096);
  EXPECT_TRUE(GpuMemory::holds(pooled + 100));
  EXPECT_FALSE(GpuMemory::holds(managed));
  EXPECT_FALSE(GpuMemory::holds(reinterpret_cast<std::uintptr_t>(pinned)));
  EXPECT_FALSE(GpuMemory::holds(reinterpret_cast<std::uintptr_t>(pageable.data())));
  EXPECT_FALSE(GpuMemory::holds(0));
  CUDA_OK(cuMemFree_v2(managed));
  CUDA_OK(cuMemFreeHost(pinned));
  CUDA_OK(cuMemFreeAsync(pooled, stream));
  CUDA_OK(cuStreamSynchronize(stream));
  EXPECT_FALSE(GpuMemory::holds(pooled));
}

TEST_F(CudaGpuMemory, IsOneAllocationForEachRegistration) {
  EXPECT_EQ(find(device + 1000, 10), memory);
  EXPECT_THAT(refusal(device + 1000, kSize), HasSubstr("the allocation ends after 1047576"));
  CUDA_OK(cuMemFree_v2(device));
  EXPECT_THAT(refusal(device, 16), HasSubstr("was freed"));
}

TEST_F(CudaGpuMemory, MappedMemoryIsOneMappingWithAccess) {
  CUmemAllocationProp properties{};
  properties.type = 1;
  properties.location = {1, 0};
  CUmemGenericAllocationHandle first = 0, second = 0;
  CUdeviceptr address = 0;
  CUDA_OK(cuMemCreate(&first, kBlock, &properties, 0));
  CUDA_OK(cuMemCreate(&second, kBlock, &properties, 0));
  CUDA_OK(cuMemAddressReserve(&address, 4 * kBlock, 0, 0, 0));
  CUDA_OK(cuMemMap(address, kBlock, 0, first, 0));
  CUDA_OK(cuMemMap(address + kBlock, kBlock, 0, second, 0));
  EXPECT_THAT(refusal(address, 4096), HasSubstr("cuMemSetAccess"));
  const CUmemAccessDesc access{{1, 0}, 3};
  CUDA_OK(cuMemSetAccess(address, 2 * kBlock, &access, 1));
  EXPECT_THAT(refusal(address + 4096, kBlock), HasSubstr("register each allocation by itself"));
  Dma* const mapped = find(address + kBlock, kBlock);
  ASSERT_NE(mapped, nullptr);
  const auto bytes = numbers(5000);
  ASSERT_TRUE(mapped->scatter(bytes, std::array{Segment{address + kBlock, 5000, mapped}}));
  ASSERT_TRUE(mapped->finish());
  CUDA_OK(cuMemUnmap(address, 2 * kBlock));
  EXPECT_FALSE(mapped->scatter(bytes, std::array{Segment{address + kBlock, 5000, mapped}}));
  EXPECT_TRUE(mapped->finish());
}

TEST_F(CudaGpuMemory, CopiesAreThereWhenTheyAreFinished) {
  const auto bytes = numbers(70'000);
  ASSERT_TRUE(put(3, bytes));
  EXPECT_EQ(there(3, bytes.size()), bytes);
  std::vector<std::uint8_t> back(bytes.size());
  ASSERT_TRUE(memory->gather(std::array{at(3, 30'001), at(30'004, 39'999)}, back));
  EXPECT_TRUE(memory->pending());
  ASSERT_TRUE(memory->finish());
  EXPECT_FALSE(memory->pending());
  EXPECT_EQ(back, bytes);
}

TEST_F(CudaGpuMemory, AListOfPiecesGoesToEach) {
  const auto bytes = numbers(100);
  ASSERT_TRUE(memory->scatter(bytes, std::array{at(500, 1), at(9000, 60), at(100, 39)}));
  ASSERT_TRUE(memory->finish());
  EXPECT_EQ(there(500, 1)[0], bytes[0]);
  EXPECT_EQ(there(9000, 60), (std::vector<std::uint8_t>{bytes.begin() + 1, bytes.begin() + 61}));
  EXPECT_EQ(there(100, 39), (std::vector<std::uint8_t>{bytes.begin() + 61, bytes.end()}));
}

// ---- frames

constexpr std::size_t kStride = 4160, kPart = 4096, kParts = 40;

TEST_F(CudaGpuMemory, ThePartsOfFramesAreOneCopy) {
  const auto bytes = numbers(kParts * kPart, 7);
  ASSERT_TRUE(put(0, bytes));
  std::vector<std::uint8_t> frames(kParts * kStride);
  const auto before = stand_in_calls("cuMemcpy2DAsync");
  ASSERT_TRUE(
      memory->gather_parts(device, {std::span{frames}.subspan(28, kPart), kStride, kParts}));
  ASSERT_TRUE(memory->finish());
  EXPECT_EQ(stand_in_calls("cuMemcpy2DAsync") - before, 1u);
  for (std::size_t i = 0; i < kParts; ++i) {
    ASSERT_TRUE(
        std::equal(&frames[28 + i * kStride], &frames[28 + i * kStride] + kPart, &bytes[i * kPart]))
        << "part " << i;
  }
}

/// The first frame of a message has longer headers, and the last one may be short.
TEST_F(CudaGpuMemory, BatchesOfFramesAreFewCopies) {
  auto frames = numbers(kParts * kStride, 3);
  std::vector<Copy> list{{std::span{frames}.subspan(44, kPart), device + 5}};
  for (std::size_t i = 1; i + 1 < kParts; ++i) {
    list.push_back({std::span{frames}.subspan(28 + i * kStride, kPart), device + 5 + i * kPart});
  }
  list.push_back({std::span{frames}.subspan(28 + (kParts - 1) * kStride, 100),
                  device + 5 + (kParts - 1) * kPart});
  const auto before = stand_in_calls("cuMemcpy2DAsync");
  const std::span all{list};
  ASSERT_TRUE(memory->scatter_all(all.first(20)));
  ASSERT_TRUE(memory->scatter_all(all.subspan(20)));
  ASSERT_TRUE(memory->finish());
  EXPECT_EQ(stand_in_calls("cuMemcpy2DAsync") - before, 3u);  // the first two lie otherwise
  for (const Copy& c : list) {
    ASSERT_EQ(there(c.to - device, c.from.size()),
              (std::vector<std::uint8_t>{c.from.begin(), c.from.end()}));
  }
}

/// Sizes and places at which the last word has 8, 4, 2 or 1 bytes.
TEST_F(CudaGpuMemory, TheLastByteComesLast) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "what a GPU reads while it is written is a race for ThreadSanitizer";
#endif
  for (const std::size_t size : {1, 2, 3, 8, 9, 64, 4095, 4096, 70'000}) {
    for (const std::size_t offset : {0, 1, 2, 4}) {
      const std::vector<std::uint8_t> clear(size);
      const auto bytes = numbers(size, 1 + static_cast<unsigned>(255 - size % 200));
      std::vector<std::uint8_t> wanted = bytes;
      wanted.back() = 0xa5;
      ASSERT_TRUE(put(offset, clear));
      std::atomic<bool> early{false};
      std::thread watcher{[&] {
        const auto* const place = static_cast<const std::uint8_t*>(stand_in_bytes(device + offset));
        const std::atomic_ref last{const_cast<std::uint8_t&>(place[size - 1])};
        while (last.load(std::memory_order_acquire) != 0xa5) std::this_thread::yield();
        early = std::memcmp(place, wanted.data(), size) != 0;
      }};
      const bool well = put(offset, wanted);
      watcher.join();
      ASSERT_TRUE(well);
      ASSERT_FALSE(early) << size << " bytes at " << offset;
    }
  }
}

// ---- what goes wrong

TEST_F(CudaGpuMemory, FreedMemoryIsNotReached) {
  std::vector<std::uint8_t> bytes(64, 1);
  CUDA_OK(cuMemFree_v2(device));
  EXPECT_FALSE(put(0, bytes));
  EXPECT_FALSE(memory->gather(std::array{at(0, 64)}, bytes));
  EXPECT_FALSE(memory->gather_parts(device, {std::span{bytes}.first(16), 32, 2}));
  EXPECT_FALSE(memory->scatter_all(std::array{Copy{bytes, device}}));
  EXPECT_FALSE(memory->fetch_add(device, 1).has_value());
  EXPECT_FALSE(memory->store(device, 1));
  EXPECT_FALSE(memory->prepare(at(0, 64), true).ok());
}

/// A region is of the allocation that was registered, whatever lies there later.
TEST_F(CudaGpuMemory, WhatIsAllocatedLaterInItsPlaceIsNotReached) {
  CUDA_OK(cuMemFree_v2(device));
  const CUdeviceptr next = allocate(kSize);
  ASSERT_EQ(next, device) << "the stand-in uses addresses again";
  EXPECT_FALSE(put(0, numbers(64)));
  EXPECT_NE(find(next, kSize), memory);
}

TEST_F(CudaGpuMemory, AContextThatWasDestroyedIsNotUsed) {
  CUDA_OK(cuCtxDestroy_v2(context));  // the stand-in aborts if it is made current again
  EXPECT_FALSE(put(0, numbers(64)));
  EXPECT_FALSE(memory->compare_swap(device, 0, 1).has_value());
  CUDA_OK(cuCtxCreate_v2(&context, 0, 0));  // perhaps at the same address
  device = allocate(kSize);
  memory = find(device, kSize);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(put(0, numbers(64)));
}

TEST_F(CudaGpuMemory, AContextMayGoInTheMiddleOfACopy) {
  const auto bytes = numbers(64);
  ASSERT_TRUE(memory->scatter(bytes, std::array{at(0, 64)}));
  ASSERT_TRUE(memory->pending());
  CUDA_OK(cuCtxDestroy_v2(context));
  EXPECT_FALSE(memory->finish());
  EXPECT_FALSE(memory->pending());
}

TEST_F(CudaGpuMemory, APrimaryContextThatWasResetIsUsedAnew) {
  const auto pooled = [&] {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAllocAsync(&address, 4096, stream), CUDA_SUCCESS);
    return address;
  };
  const CUdeviceptr before = pooled();
  Dma* const first = find(before, 4096);
  ASSERT_NE(first, nullptr);
  CUDA_OK(cuDevicePrimaryCtxReset_v2(0));
  const auto bytes = numbers(64);
  EXPECT_FALSE(first->scatter(bytes, std::array{Segment{before, 64, first}}) && first->finish());
  const CUdeviceptr after = pooled();
  Dma* const second = find(after, 4096);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(second->scatter(bytes, std::array{Segment{after, 64, second}}) && second->finish());
}

TEST_F(CudaGpuMemory, EachCallMayFail) {
  const auto bytes = numbers(3 * kPart);
  std::vector<std::uint8_t> frames(3 * kStride);
  for (const char* call :
       {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpy2DAsync", "cuStreamWriteValue64",
        "cuStreamSynchronize", "cuCtxPushCurrent", "cuPointerGetAttributes"}) {
    const auto all = [&] {
      bool well = put(0, bytes);
      well = memory->gather(std::array{at(0, 64)}, std::span{frames}.first(64)) && well;
      well = memory->finish() && well;
      well = memory->gather_parts(device, {std::span{frames}.first(kPart), kStride, 3}) && well;
      return memory->finish() && well;
    };
    stand_in_fail((std::string{call} + ":*:999").c_str());
    EXPECT_FALSE(all()) << call;
    stand_in_fail("");
    EXPECT_TRUE(all()) << call;
  }
}

TEST_F(CudaGpuMemory, AStreamThatCantBeHadIsToldAtRegistration) {
  CUcontext other = nullptr;
  CUDA_OK(cuCtxCreate_v2(&other, 0, 0));
  const CUdeviceptr theirs = allocate(4096);
  stand_in_fail("cuStreamCreate:1:2");
  const auto found = gpu.find({theirs, 4096});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ENODEV);
  EXPECT_THAT(found.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
  CUDA_OK(cuCtxDestroy_v2(other));
}

// ---- words

TEST_F(CudaGpuMemory, Words) {
  ASSERT_TRUE(memory->store(device + 8, 40));
  EXPECT_EQ(memory->fetch_add(device + 8, 2), 40u);
  EXPECT_EQ(memory->compare_swap(device + 8, 41, 1), 42u);
  EXPECT_EQ(memory->compare_swap(device + 8, 42, 7), 42u);
  std::uint64_t word = 0;
  std::memcpy(&word, there(8, 8).data(), 8);
  EXPECT_EQ(word, 7u);
}

// ---- frames in memory that the device reaches by itself

TEST_F(CudaGpuMemory, FramesArePinnedOnceAndLetGoBeforeTheirMemory) {
  for (const bool writable : {true, false}) {
    void* const base = mmap(nullptr, kSize, PROT_READ | (writable ? PROT_WRITE : 0),
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(base, MAP_FAILED);
    auto* const frames = static_cast<std::uint8_t*>(base);
    const auto pinned = stand_in_calls("cuMemHostRegister");
    const auto let_go = stand_in_calls("cuMemHostUnregister");
    note_frame_mapping({frames, kSize, writable});
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(memory->scatter({frames + 100, 64}, std::array{at(0, 64)}));
      ASSERT_TRUE(memory->finish());
    }
    EXPECT_EQ(stand_in_calls("cuMemHostRegister") - pinned, 1u);
    EXPECT_TRUE(GpuMemory::holds(device) &&
                look_up(*Driver::loaded(), reinterpret_cast<std::uintptr_t>(frames)).type ==
                    MemoryType::host);
    forget_frame_mapping(frames);
    EXPECT_EQ(stand_in_calls("cuMemHostUnregister") - let_go, 1u);
    munmap(base, kSize);  // the stand-in aborts at the next call if it were still pinned
    ASSERT_TRUE(put(0, numbers(64)));
  }
}

TEST_F(CudaGpuMemory, FramesThatCantBePinnedAreCopiedAllTheSame) {
  std::vector<std::uint8_t> frames = numbers(4096);
  note_frame_mapping({frames.data(), frames.size(), true});
  stand_in_fail("cuMemHostRegister:*:2");
  ASSERT_TRUE(memory->scatter(frames, std::array{at(0, frames.size())}));
  ASSERT_TRUE(memory->finish());
  EXPECT_EQ(there(0, frames.size()), frames);
  const auto let_go = stand_in_calls("cuMemHostUnregister");
  forget_frame_mapping(frames.data());
  EXPECT_EQ(stand_in_calls("cuMemHostUnregister"), let_go);
}

}  // namespace
}  // namespace verbena::memory::cuda
