#pragma once

// What to compare the transfers with.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "labs/gpu/transfers.h"

namespace gpu {

/// What the driver's own copies do with the same memory, in GB/s.
struct CopyRates {
  double to_gpu = 0, to_host = 0;
  double pinned = 0;  // from or to pinned host memory: the slower of the two

  [[nodiscard]] double of(const Transfer& transfer) const {
    if (transfer.from == transfer.to) return pinned;
    return transfer.to == Kind::gpu ? to_gpu : to_host;
  }
};

inline CopyRates measure_copies(const Device& device, const rdma::ProtectionDomain& pd,
                                const Memories& mine, std::size_t size, std::uint64_t rounds) {
  using enum Device::Direction;
  const auto rate = [&](Device::Direction direction, const Memory& host) {
    double best = 0;  // of several: the first one finds everything cold
    for (std::uint64_t i = 0; i <= rounds; ++i) {
      best = std::max(best, device.copy_rate(direction, mine.on_gpu.address(), host.on_host(), size,
                                             kMessages));
    }
    return best;
  };
  const Memory pinned{device, pd, Kind::host, kMessages * size, {.pinned = true}};
  return {rate(to_gpu, mine.on_host), rate(to_host, mine.on_host),
          std::min(rate(to_gpu, pinned), rate(to_host, pinned))};
}

}  // namespace gpu
