#include "labs/gpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "labs/common/lab.h"
#include "labs/common/pattern.h"

namespace gpu {
namespace {

constexpr std::size_t kAlignment = 65536;  // a dma-buf consists of whole pages

std::size_t aligned(std::uint64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

/// Allocates GPU memory as any CUDA program does, but beginning at a whole page.
std::byte* allocate_on_gpu(const Driver& driver, std::size_t bytes, Address& allocated) {
  driver.check(driver.allocate(&allocated, aligned(bytes) + kAlignment),
               fmt::format("cuMemAlloc of {} bytes (choose a smaller --size)", bytes));
  return reinterpret_cast<std::byte*>(aligned(allocated));
}

/// What the device can't do isn't the lab's failure, unless the device is ours.
[[noreturn]] void cannot_register(const rdma::ProtectionDomain& pd, const rdma::Error& error,
                                  const char* next) {
  const std::string device = ibv_get_device_name(pd.raw()->context->device);
  if (rdma::is_verbena(device)) throw lab::Failed{error.what()};
  throw lab::Skipped{
      fmt::format("{} can't access memory of the GPU: {}; {}", device, error.what(), next)};
}

rdma::MemoryRegion by_dmabuf(const Driver& driver, const rdma::ProtectionDomain& pd,
                             std::span<std::byte> bytes, rdma::Access access) {
  int descriptor = -1;
  const auto address = reinterpret_cast<Address>(bytes.data());
  if (driver.export_range == nullptr ||
      driver.export_range(&descriptor, address, aligned(bytes.size()), kDmaBuf, 0) != 0) {
    throw lab::Skipped{
        "this driver exports no dma-buf: that needs CUDA 11.7 and NVIDIA's open kernel modules; "
        "try without --dmabuf"};
  }
  try {
    auto region = rdma::MemoryRegion::of_dmabuf(pd, descriptor, 0, bytes, access);
    close(descriptor);  // the region keeps the memory
    return region;
  } catch (const rdma::Error& error) {
    close(descriptor);
    cannot_register(pd, error, "try without --dmabuf, with the kernel module nvidia_peermem");
  }
}

}  // namespace

Memory::Memory(const Device& device, const rdma::ProtectionDomain& pd, Kind kind, std::size_t bytes,
               const Settings& settings)
    : Memory{device, pd, kind, allocate(device, kind, bytes, settings), settings} {}

Memory::Memory(const Device& device, const rdma::ProtectionDomain& pd, Kind kind, Allocation memory,
               const Settings& settings)
    : device_{device},
      kind_{kind},
      owner_{std::move(memory.owner)},
      region_{enroll(device, pd, kind, memory.bytes, settings)} {}

Memory::Allocation Memory::allocate(const Device& device, Kind kind, std::size_t bytes,
                                    const Settings& settings) {
  const Driver& d = device.driver();
  if (kind == Kind::gpu) {
    Address allocated = 0;
    std::byte* const start = allocate_on_gpu(d, bytes, allocated);
    return {Owner{start, [&d, allocated](std::byte*) { d.release(allocated); }}, {start, bytes}};
  }
  void* start = nullptr;
  if (settings.pinned) {
    d.check(d.allocate_pinned(&start, bytes, 0), fmt::format("cuMemHostAlloc of {} bytes", bytes));
    return {Owner{static_cast<std::byte*>(start), [&d](std::byte* at) { d.release_pinned(at); }},
            {static_cast<std::byte*>(start), bytes}};
  }
  start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  lab::check(start != MAP_FAILED, "mmap of {} bytes: {}", bytes, std::strerror(errno));
  return {Owner{static_cast<std::byte*>(start), [bytes](std::byte* at) { munmap(at, bytes); }},
          {static_cast<std::byte*>(start), bytes}};
}

rdma::MemoryRegion Memory::enroll(const Device& device, const rdma::ProtectionDomain& pd, Kind kind,
                                  std::span<std::byte> bytes, const Settings& settings) {
  const auto access =
      rdma::Access::local_write | rdma::Access::remote_write | rdma::Access::remote_read;
  if (kind == Kind::host) return {pd, bytes, access};
  if (settings.dmabuf) return by_dmabuf(device.driver(), pd, bytes, access);
  try {
    return {pd, bytes, access};
  } catch (const rdma::Error& error) {
    cannot_register(pd, error, "load the kernel module nvidia_peermem, or try --dmabuf");
  }
}

void Memory::fill(std::uint64_t seed) const {
  if (kind_ == Kind::gpu) return device_.fill(address(), size(), seed);
  lab::fill_pattern(region_.bytes(), seed);
}

std::size_t Memory::first_difference(std::uint64_t seed) const {
  if (kind_ == Kind::gpu) return device_.first_difference(address(), size(), seed);
  return lab::first_difference(region_.bytes(), seed);
}

}  // namespace gpu
