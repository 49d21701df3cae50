#pragma once

// The column "loss" of the table: what may stand in it.

#include <string>
#include <vector>

namespace loss {

/// A part that FaultSpec can write down and that some packet may meet.
[[nodiscard]] inline std::string rate_problem(double percent) {
  if (percent == 0 || (percent >= 0.001 && percent <= 50)) return "";
  return "give percents: 0, or 0.001 to 50";
}

}  // namespace loss
