#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "base/entropy.h"

namespace verbena::host {

/// The kernel's CSPRNG, in bites.
class SystemEntropy final : public Entropy {
 public:
  [[nodiscard]] std::uint32_t next() override {
    if (left_ == 0) refill();
    return pool_[--left_];
  }

 private:
  void refill() {
    // At most 256 bytes: never short, never interrupted once the kernel is seeded (getrandom(2)).
    while (getrandom(pool_.data(), sizeof pool_, 0) != sizeof pool_) {
      if (errno != EINTR) std::abort();  // keys that can be guessed are worse than no device
    }
    left_ = pool_.size();
  }

  std::array<std::uint32_t, 64> pool_{};
  std::size_t left_ = 0;
};

}  // namespace verbena::host
