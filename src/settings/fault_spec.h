#pragma once

// The faults of a network, as the user writes them:
//
//   drop=1%,dup=1%,reorder=2%,corrupt=0.1%,delay=2ms~0.5ms,rate=1Gbit,seed=7
//
// dup may be written duplicate.

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace verbena::settings {

struct FaultSpec {
  static constexpr Duration kMaxDelay = std::chrono::seconds{60};
  static constexpr double kMinRate = 1e3;
  static constexpr double kMaxRate = 1e12;

  // Shares of the frames, 0 … 1.
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;
  double corrupt = 0;

  Duration delay{};
  Duration jitter{};  // each frame's delay is somewhere in delay ± jitter
  double rate = 0;    // bits per second; 0: as fast as it goes
  std::uint64_t seed = 1;

  friend bool operator==(const FaultSpec&, const FaultSpec&) = default;
};

/// The form of a spec, for help texts.
inline constexpr std::string_view kFaultForm =
    "KEY=VALUE,… with the keys drop, dup, reorder, corrupt (1% or 0.01), delay (2ms, 2ms~0.5ms), "
    "rate (1Gbit), seed (7)";

/// EINVAL: names the part that is wrong and the form that it should have.
[[nodiscard]] Result<FaultSpec> parse_fault_spec(std::string_view text);

}  // namespace verbena::settings
