#pragma once

// What a registration costs, and what a cache of them saves. One end is enough to see it.

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "labs/common/lab.h"
#include "labs/registration/region_cache.h"

namespace registration {

using Microseconds = std::chrono::duration<double, std::micro>;

/// The shortest of several tries: the others were disturbed.
template <class Work>
[[nodiscard]] Microseconds fastest(int tries, Work work) {
  Microseconds best = Microseconds::max();
  for (int i = 0; i < tries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min<Microseconds>(best, std::chrono::steady_clock::now() - start);
  }
  return best;
}

/// KiB of this process that the kernel keeps in place for a device (VmPin).
[[nodiscard]] inline std::uint64_t pinned_kib() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;) {
    std::uint64_t kib = 0;
    if (word == "VmPin:" && status >> kib) return kib;
  }
  return 0;
}

/// Pages of its own, touched, without a registration.
class Pages {
 public:
  explicit Pages(std::size_t size) : size_{size}, start_{map(size)} {
    std::memset(start_, 1, size);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(start_, size_); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {start_, size_}; }

 private:
  static std::byte* map(std::size_t size) {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw rdma::Error{"mmap", rdma::concat(size, " bytes"), errno};
    return static_cast<std::byte*>(at);
  }
  std::size_t size_;
  std::byte* start_;
};

/// Registering a piece, against copying it to memory that is registered already.
struct Cost {
  std::size_t size;
  Microseconds registered, released, copied;
  std::uint64_t pinned_kib;
};
[[nodiscard]] inline Cost cost_of(const rdma::ProtectionDomain& pd, std::span<std::byte> piece,
                                  std::span<std::byte> copy) {
  constexpr int kTries = 5;
  Cost cost{piece.size(), Microseconds::max(), Microseconds::max(), {}, 0};
  const std::uint64_t before = pinned_kib();
  for (int i = 0; i < kTries; ++i) {
    std::optional<rdma::MemoryRegion> region;
    cost.registered =
        std::min(cost.registered,
                 fastest(1, [&] { region.emplace(pd, piece, rdma::Access::remote_write); }));
    cost.pinned_kib = pinned_kib() - before;
    cost.released = std::min(cost.released, fastest(1, [&] { region.reset(); }));
  }
  cost.copied = fastest(kTries, [&] { std::memcpy(copy.data(), piece.data(), piece.size()); });
  return cost;
}

/// 64 buffers, of which few are used often: the way of programs.
struct CacheSettings {
  std::size_t room = 16;  // registrations that are kept
  bool even = false;      // each buffer is used as often as any other
};
struct CacheResult {
  double hit_percent;
  Microseconds with, without;  // a use
};
[[nodiscard]] inline CacheResult try_cache(const rdma::ProtectionDomain& pd, std::uint64_t uses,
                                           const CacheSettings& settings) {
  constexpr std::size_t kBuffers = 64, kSize = 64 * 1024;
  const Pages memory{kBuffers * kSize};
  std::mt19937_64 dice{7};
  std::geometric_distribution<std::size_t> popularity{0.12};
  const auto next = [&] {
    const std::size_t which = settings.even ? dice() : popularity(dice);
    return memory.bytes().subspan(which % kBuffers * kSize, kSize);
  };

  RegionCache cache{pd, settings.room};
  const auto with = fastest(1, [&] {
    for (std::uint64_t i = 0; i < uses; ++i) {
      const auto buffer = next();
      const rdma::MemoryRegion& region = cache.of(buffer);
      lab::check(region.bytes().data() == buffer.data() && region.size() >= buffer.size(),
                 "the cache gave the region of another buffer");
    }
  });
  dice.seed(7);
  const auto without = fastest(1, [&] {
    for (std::uint64_t i = 0; i < uses; ++i) {
      const rdma::MemoryRegion region{pd, next(), rdma::Access::local_write};
    }
  });
  lab::check(cache.hits() + cache.misses() == uses, "{} hits and {} misses of {} uses",
             cache.hits(), cache.misses(), uses);
  const auto count = static_cast<double>(uses);
  return {100 * static_cast<double>(cache.hits()) / count, with / count, without / count};
}

}  // namespace registration
