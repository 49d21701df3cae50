#include "host/devices/link_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

namespace verbena::host {

namespace {

constexpr unsigned kUnknown = 10'000;

struct Step {
  unsigned up_to;  // Mbit/s
  LinkRate rate;
};

// The codes of 1, 2 and 4 lanes are 1, 16 and 2.
constexpr std::array kSteps{
    Step{1'000, {1, 1, 1, "SDR", 25}},     Step{10'000, {1, 1, 8, "FDR10", 100}},
    Step{20'000, {4, 2, 2, "DDR", 50}},    Step{25'000, {1, 1, 32, "EDR", 250}},
    Step{40'000, {4, 2, 8, "FDR10", 100}}, Step{50'000, {2, 16, 32, "EDR", 250}},
    Step{100'000, {4, 2, 32, "EDR", 250}}, Step{200'000, {4, 2, 64, "HDR", 500}},
    Step{~0u, {4, 2, 128, "NDR", 1000}},
};

}  // namespace

std::string LinkRate::text() const {
  const unsigned tenths = lanes * tenths_per_lane;
  return fmt::format("{}{} Gb/sec ({}X {})", tenths / 10, tenths % 10 == 0 ? "" : ".5", lanes,
                     name);
}

unsigned link_speed(const std::string& interface) {
  std::ifstream file{"/sys/class/net/" + interface + "/speed"};
  int speed = 0;  // -1: unknown
  return file >> speed && speed > 0 ? static_cast<unsigned>(speed) : 0;
}

LinkRate link_rate(unsigned megabits) {
  const unsigned wanted = megabits == 0 ? kUnknown : megabits;
  return std::ranges::find_if(kSteps, [&](const Step& s) { return wanted <= s.up_to; })->rate;
}

}  // namespace verbena::host
