#pragma once

#include <cstdint>

namespace verbena {

/// Unpredictable numbers. An input like time, so that simulations replay.
class Entropy {
 public:
  [[nodiscard]] virtual std::uint32_t next() = 0;

 protected:
  ~Entropy() = default;
};

}  // namespace verbena
