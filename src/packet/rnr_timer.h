#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace verbena::packet {

/// How long an RNR NAK asks the requester to wait (IBA table 45), by its 5-bit code.
[[nodiscard]] constexpr Duration rnr_delay(std::uint8_t code) {
  constexpr std::array<std::uint32_t, 32> kHundredthsOfMs{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::chrono::microseconds{10} * kHundredthsOfMs[code & 0x1f];
}

}  // namespace verbena::packet
