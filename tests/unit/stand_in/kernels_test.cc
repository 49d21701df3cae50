// The kernels of lab gpu.

#include "tests/unit/stand_in/gpu.h"

namespace stand_in {
namespace {

constexpr const char* kText =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry fill_pattern() {}\n.visible .entry check_pattern() {}\n";

class Kernels : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    CUDA_OK(cuModuleLoadData(&module, kText));
    CUDA_OK(cuModuleGetFunction(&fill, module, "fill_pattern"));
    CUDA_OK(cuModuleGetFunction(&check, module, "check_pattern"));
  }
  void launch(CUfunction kernel, CUdeviceptr address, std::uint64_t size, std::uint64_t seed,
              CUdeviceptr result) {
    void* parameters[] = {&address, &size, &seed, &result};
    CUDA_OK(cuLaunchKernel(kernel, 4, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
  }
  /// Where the first byte is that isn't of the message.
  std::uint64_t first_wrong(CUdeviceptr address, std::uint64_t size, std::uint64_t seed) {
    const CUdeviceptr result = allocate(8);
    std::uint64_t found = size;
    EXPECT_EQ(cuMemcpyHtoD_v2(result, &found, 8), CUDA_SUCCESS);
    launch(check, address, size, seed, result);
    EXPECT_EQ(cuMemcpyDtoH_v2(&found, result, 8), CUDA_SUCCESS);
    return found;
  }

  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUfunction check = nullptr;
};

TEST_F(Kernels, FindTheFirstWrongByte) {
  const CUdeviceptr address = allocate(1001);
  launch(fill, address, 1001, 5, 0);
  EXPECT_EQ(first_wrong(address, 1001, 5), 1001u);
  EXPECT_EQ(first_wrong(address, 1001, 6), 0u);
  std::uint8_t byte = 0;
  CUDA_OK(cuMemcpyDtoH_v2(&byte, address + 700, 1));
  ++byte;
  CUDA_OK(cuMemcpyHtoD_v2(address + 700, &byte, 1));
  EXPECT_EQ(first_wrong(address, 1001, 5), 700u);
}

TEST_F(Kernels, OtherTextsAndNamesAreRefused) {
  CUmodule other = nullptr;
  EXPECT_EQ(cuModuleLoadData(&other, "no PTX"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuModuleGetFunction(&fill, module, "fill"), CUDA_ERROR_NOT_FOUND);
}

}  // namespace
}  // namespace stand_in
