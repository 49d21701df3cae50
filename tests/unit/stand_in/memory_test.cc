// Which memory the stand-in knows, what it says about it, and who may touch it.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/unit/stand_in/gpu.h"

namespace stand_in {
namespace {

constexpr std::size_t kBlock = std::size_t{2} << 20;

class Memory : public Gpu {
 protected:
  static std::uint8_t* map(std::size_t size, int access) {
    void* at = mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<std::uint8_t*>(at);
  }
};

TEST_F(Memory, ASystemCallCantTouchDeviceMemory) {
  const CUdeviceptr address = allocate(64);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], reinterpret_cast<void*>(address), 16), -1);
  EXPECT_EQ(errno, EFAULT);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(Memory, DeviceMemoryHasTheContextAndARange) {
  const CUdeviceptr address = allocate(100000);
  EXPECT_EQ(type_of(address + 99999), 2u);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address + 1), context);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, address, 7), 0u);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + 1), address);
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 1), 100000u);
  EXPECT_EQ(attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address, -1), 0);
  expect_unknown(address + 100000);
  CUDA_OK(cuMemFree_v2(address));
}

TEST_F(Memory, MappedIsFourBytes) {
  const CUdeviceptr address = allocate(64);
  EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_MAPPED, address, ~std::uint64_t{0}),
            0xffffffff00000001u);
}

TEST_F(Memory, FreedMemoryIsUnknownAndItsAddressIsUsedAgainWithAnotherId) {
  const CUdeviceptr address = allocate(4096);
  const std::uint64_t id = id_of(address);
  EXPECT_NE(id, 0u);
  CUDA_OK(cuMemFree_v2(address));
  expect_unknown(address);
  std::uint8_t byte = 0;
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(&byte, address, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(address, &byte, 1, stream), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(allocate(4096), address);
  EXPECT_GT(id_of(address), id);
}

TEST_F(Memory, PinnedAndManagedMemoryIsTheProgramsToo) {
  void* pinned = nullptr;
  CUDA_OK(cuMemHostAlloc(&pinned, 5000, 0));
  static_cast<char*>(pinned)[4999] = 1;
  const auto address = reinterpret_cast<CUdeviceptr>(pinned);
  EXPECT_EQ(type_of(address), 1u);
  EXPECT_EQ(attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, address), context);
  CUDA_OK(cuMemFreeHost(pinned));
  expect_unknown(address);

  CUdeviceptr managed = 0;
  CUDA_OK(cuMemAllocManaged(&managed, 5000, 1));
  reinterpret_cast<char*>(managed)[4999] = 1;
  EXPECT_EQ(type_of(managed), 2u);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1u);
  CUDA_OK(cuMemFree_v2(managed));
}

TEST_F(Memory, PoolMemoryHasNoContextAndIsFreedInTheOrderOfItsStream) {
  CUdeviceptr address = 0;
  CUDA_OK(cuMemAllocAsync(&address, 4096, stream));
  EXPECT_EQ(type_of(address), 2u);
  EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_CONTEXT, address, context), nullptr);
  const auto bytes = numbers(4096);
  CUDA_OK(cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), stream));
  CUDA_OK(cuMemFreeAsync(address, stream));
  CUDA_OK(cuStreamSynchronize(stream));
  expect_unknown(address);
}

TEST_F(Memory, AReservationIsOneRangeWithSeveralMappings) {
  CUmemAllocationProp properties{};
  properties.type = 1;
  properties.location = {1, 0};
  CUmemGenericAllocationHandle first = 0;
  CUmemGenericAllocationHandle second = 0;
  CUdeviceptr address = 0;
  CUDA_OK(cuMemCreate(&first, kBlock, &properties, 0));
  CUDA_OK(cuMemCreate(&second, kBlock, &properties, 0));
  CUDA_OK(cuMemAddressReserve(&address, 4 * kBlock, 0, 0, 0));
  CUDA_OK(cuMemMap(address, kBlock, 0, first, 0));
  CUDA_OK(cuMemMap(address + kBlock, kBlock, 0, second, 0));
  EXPECT_EQ(cuMemGetAddressRange_v2(nullptr, nullptr, address), CUDA_ERROR_NOT_FOUND)
      << "there is no access yet";
  const CUmemAccessDesc access{{1, 0}, 3};
  CUDA_OK(cuMemSetAccess(address, 2 * kBlock, &access, 1));

  const CUdeviceptr inside = address + kBlock + 100;
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CUDA_OK(cuMemGetAddressRange_v2(&base, &size, inside));
  EXPECT_EQ(base, address + kBlock);
  EXPECT_EQ(size, kBlock);
  EXPECT_EQ(type_of(inside), 2u);
  EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_CONTEXT, inside, context), nullptr);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside), address);
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), 4 * kBlock);
  EXPECT_EQ(attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inside), base);
  EXPECT_EQ(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside), kBlock);
  EXPECT_EQ(attribute<unsigned>(CU_POINTER_ATTRIBUTE_MAPPED, address + 2 * kBlock, 7), 0u);

  // A copy may go over two mappings, but not out of them.
  const auto bytes = numbers(100000);
  std::vector<std::uint8_t> back(bytes.size());
  CUDA_OK(cuMemcpyHtoD_v2(address + kBlock - 50000, bytes.data(), bytes.size()));
  CUDA_OK(cuMemcpyDtoH_v2(back.data(), address + kBlock - 50000, back.size()));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(cuMemcpyDtoH_v2(back.data(), address + 2 * kBlock - 1, 2), CUDA_ERROR_INVALID_VALUE);

  CUDA_OK(cuMemUnmap(address, 2 * kBlock));
  EXPECT_EQ(cuMemcpyDtoH_v2(back.data(), address, 1), CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cuMemAddressFree(address, 4 * kBlock));
  CUDA_OK(cuMemRelease(first));
  CUDA_OK(cuMemRelease(second));
}

TEST_F(Memory, RegistersHostMemoryOnceAndReadOnlyMemoryAsSuch) {
  std::uint8_t* bytes = map(16384, PROT_READ | PROT_WRITE);
  CUDA_OK(cuMemHostRegister_v2(bytes, 8192, 0));
  EXPECT_EQ(cuMemHostRegister_v2(bytes + 4096, 8192, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr device = 0;
  CUDA_OK(cuMemHostGetDevicePointer_v2(&device, bytes + 100, 0));
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(bytes + 100));
  CUDA_OK(cuMemHostUnregister(bytes));
  EXPECT_EQ(cuMemHostUnregister(bytes), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);

  ASSERT_EQ(mprotect(bytes + 4096, 4096, PROT_READ), 0);
  EXPECT_EQ(cuMemHostRegister_v2(bytes, 8192, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cuMemHostRegister_v2(bytes, 8192, CU_MEMHOSTREGISTER_READ_ONLY));
  CUDA_OK(cuMemHostUnregister(bytes));
  ASSERT_EQ(munmap(bytes + 4096, 4096), 0);
  EXPECT_EQ(cuMemHostRegister_v2(bytes, 8192, CU_MEMHOSTREGISTER_READ_ONLY),
            CUDA_ERROR_INVALID_VALUE);
  munmap(bytes, 16384);
}

TEST_F(Memory, ADmaBufHasASizeButCantBeMapped) {
  const CUdeviceptr address = allocate(65536);
  int descriptor = -1;
  CUDA_OK(cuMemGetHandleForAddressRange(&descriptor, address + 4096, 8192, 1, 0));
  EXPECT_EQ(lseek(descriptor, 0, SEEK_END), 8192);
  EXPECT_EQ(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, descriptor, 0), MAP_FAILED);
  EXPECT_NE(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  close(descriptor);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&descriptor, address + 100, 4096, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Memory, AForkedChildHasNoDriver) {
  const pid_t child = fork();
  if (child == 0) {
    CUdeviceptr address = 0;
    _exit(cuMemAlloc_v2(&address, 64) == CUDA_ERROR_NOT_INITIALIZED &&
                  cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
              ? 0
              : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

using MemoryDeathTest = Memory;

TEST_F(MemoryDeathTest, AbortsIfRegisteredMemoryWasUnmapped) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::uint8_t* bytes = map(8192, PROT_READ | PROT_WRITE);
        std::uint8_t to = 0;
        const CUdeviceptr address = allocate(64);
        if (cuMemHostRegister_v2(bytes, 8192, 0) == CUDA_SUCCESS) munmap(bytes + 4096, 4096);
        static_cast<void>(cuMemcpyDtoH_v2(&to, address, 1));
      },
      "unmapped while it is registered");
}

TEST_F(MemoryDeathTest, ATouchOfDeviceMemoryKills) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const CUdeviceptr address = allocate(64);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(address) = 1, "");
}

}  // namespace
}  // namespace stand_in
