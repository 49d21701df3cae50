#include "labs/gpu/device.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "labs/common/lab.h"
#include "labs/gpu/kernels.h"

namespace gpu {

Device::Device(int ordinal) {
  const Driver& d = driver_;
  int count = 0;
  d.check(d.device_count(&count), "cuDeviceGetCount");
  if (ordinal >= count) {
    throw lab::Refused{
        fmt::format("--gpu {}: this machine has {}; the first one is 0", ordinal, count)};
  }
  int device = 0;
  d.check(d.device(&device, ordinal), "cuDeviceGet");
  std::array<char, 128> name{};
  d.check(d.device_name(name.data(), name.size(), device), "cuDeviceGetName");
  name_ = name.data();
  void* context = nullptr;
  d.check(d.retain_context(&context, device), "cuDevicePrimaryCtxRetain");
  d.check(d.set_context(context), "cuCtxSetCurrent");
  constexpr unsigned kNonBlocking = 1;  // it doesn't wait for the default stream
  d.check(d.create_stream(&stream_, kNonBlocking), "cuStreamCreate");
  void* module = nullptr;
  d.check(d.load_module(&module, kKernels), "cuModuleLoadData of the lab's kernels");
  d.check(d.find_kernel(&fill_, module, "fill_pattern"), "cuModuleGetFunction(fill_pattern)");
  d.check(d.find_kernel(&check_, module, "check_pattern"), "cuModuleGetFunction(check_pattern)");
  d.check(d.allocate(&result_, sizeof(std::uint64_t)), "cuMemAlloc");
}

void Device::launch(void* kernel, std::size_t bytes, void** parameters) const {
  constexpr unsigned kThreads = 256;
  constexpr std::size_t kBlocks = 4096;  // at most; then a thread takes several bytes
  const auto blocks = static_cast<unsigned>(std::min((bytes + kThreads - 1) / kThreads, kBlocks));
  driver_.check(
      driver_.launch(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr),
      "cuLaunchKernel");
  driver_.check(driver_.wait_for_stream(stream_), "a kernel");
}

void Device::fill(Address address, std::size_t bytes, std::uint64_t seed) const {
  std::uint64_t size = bytes;
  std::array<void*, 3> parameters{&address, &size, &seed};
  launch(fill_, bytes, parameters.data());
}

std::size_t Device::first_difference(Address address, std::size_t bytes, std::uint64_t seed) const {
  std::uint64_t size = bytes;
  std::uint64_t found = bytes;
  Address result = result_;
  std::array<void*, 4> parameters{&address, &size, &seed, &result};
  driver_.check(driver_.to_device(result_, &found, sizeof found, stream_), "cuMemcpyHtoDAsync");
  driver_.check(driver_.wait_for_stream(stream_), "cuStreamSynchronize");
  launch(check_, bytes, parameters.data());
  driver_.check(driver_.to_host(&found, result_, sizeof found, stream_), "cuMemcpyDtoHAsync");
  driver_.check(driver_.wait_for_stream(stream_), "cuStreamSynchronize");
  return found;
}

double Device::copy_rate(Direction direction, Address address, std::byte* host, std::size_t size,
                         std::size_t count) const {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t at = 0; at < count * size; at += size) {
    const Result started = direction == Direction::to_gpu
                               ? driver_.to_device(address + at, host + at, size, stream_)
                               : driver_.to_host(host + at, address + at, size, stream_);
    driver_.check(started, "cuMemcpyAsync");
  }
  driver_.check(driver_.wait_for_stream(stream_), "cuStreamSynchronize");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return static_cast<double>(count * size) / 1e9 / took.count();
}

}  // namespace gpu
