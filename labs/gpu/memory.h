#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "labs/gpu/device.h"
#include "rdma++/rdma.h"

namespace gpu {

enum class Kind { gpu, host };

struct Settings {
  int gpu = 0;          // which one
  bool dmabuf = false;  // how its memory is registered
  bool pinned = false;  // host memory: allocated by the driver
};

/// Registered memory of either kind. After that nothing differs: the same slices, the same
/// requests.
class Memory {
 public:
  /// Throws lab::Skipped if the device can't access memory of a GPU.
  Memory(const Device& device, const rdma::ProtectionDomain& pd, Kind kind, std::size_t bytes,
         const Settings& settings);

  [[nodiscard]] rdma::Slice slice(std::size_t offset, std::size_t size) const {
    return region_.slice(offset, size);
  }
  [[nodiscard]] rdma::RemoteBuffer remote() const { return region_.remote(); }
  [[nodiscard]] std::size_t size() const { return region_.size(); }
  /// For the driver. Of host memory the CPU may follow it, too.
  [[nodiscard]] Address address() const { return remote().addr; }
  [[nodiscard]] std::byte* on_host() const { return region_.bytes().data(); }

  /// By a kernel if the memory is the GPU's.
  void fill(std::uint64_t seed) const;
  [[nodiscard]] std::size_t first_difference(std::uint64_t seed) const;

 private:
  using Owner = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  struct Allocation {
    Owner owner;
    std::span<std::byte> bytes;
  };
  static Allocation allocate(const Device& device, Kind kind, std::size_t bytes,
                             const Settings& settings);
  static rdma::MemoryRegion enroll(const Device& device, const rdma::ProtectionDomain& pd,
                                   Kind kind, std::span<std::byte> bytes, const Settings& settings);
  Memory(const Device& device, const rdma::ProtectionDomain& pd, Kind kind, Allocation memory,
         const Settings& settings);

  const Device& device_;
  Kind kind_;
  Owner owner_;  // outlives the region
  rdma::MemoryRegion region_;
};

}  // namespace gpu
