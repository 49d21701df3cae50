#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "labs/gpu/driver.h"

namespace gpu {

/// A GPU of this machine, its context current in the calling thread, and the lab's kernels on it.
class Device {
 public:
  /// Throws lab::Skipped or lab::Refused if there is no such GPU.
  explicit Device(int ordinal);

  [[nodiscard]] const Driver& driver() const { return driver_; }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Kernels. Each returns when it is done.

  /// Message `seed` of lab::fill_pattern().
  void fill(Address address, std::size_t bytes, std::uint64_t seed) const;
  /// The first byte that isn't of that message; `bytes`: all are.
  [[nodiscard]] std::size_t first_difference(Address address, std::size_t bytes,
                                             std::uint64_t seed) const;

  enum class Direction { to_gpu, to_host };
  /// GB/s of cuMemcpyAsync between the GPU and this memory: `count` pieces of `size` bytes, one
  /// behind another, then one wait.
  [[nodiscard]] double copy_rate(Direction direction, Address address, std::byte* host,
                                 std::size_t size, std::size_t count) const;

 private:
  void launch(void* kernel, std::size_t bytes, void** parameters) const;

  Driver driver_;
  std::string name_;
  void* stream_ = nullptr;
  void* fill_ = nullptr;  // kernels
  void* check_ = nullptr;
  Address result_ = 0;  // of check_, for the life of the process
};

}  // namespace gpu
