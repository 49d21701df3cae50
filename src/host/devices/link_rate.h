#pragma once

// The speed of an interface in the terms of InfiniBand: lanes, and what each carries.

#include <cstdint>
#include <string>

namespace verbena::host {

struct LinkRate {
  std::uint8_t lanes = 1;
  std::uint8_t width = 1;          // code of the lanes, as ibv_port_attr has it
  std::uint8_t speed = 8;          // code of one lane's
  const char* name = "FDR10";      // of that speed
  unsigned tenths_per_lane = 100;  // of Gbit/s

  /// As sysfs shows it: "10 Gb/sec (1X FDR10)".
  [[nodiscard]] std::string text() const;
};

/// Of an interface, in Mbit/s, as its driver tells it. 0: it doesn't.
[[nodiscard]] unsigned link_speed(const std::string& interface);

/// The one that the kernel would choose for a RoCE NIC of so many Mbit/s. 0, unknown, is 10 Gbit/s:
/// what one core moves, give or take.
[[nodiscard]] LinkRate link_rate(unsigned megabits);

}  // namespace verbena::host
