#pragma once

// Which measurements make a run, and how often each is repeated.

#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "tools/bench/spec.h"

namespace verbena::bench {

struct Plan {
  std::string name;  // "quick", "normal", "full" or "custom"
  unsigned rounds = 0;
  double seconds = 0;         // of a measurement in a round
  double time_limit = 0;      // of the whole run; no round begins after it. 0: none
  std::vector<Spec> specs{};  // in the order of a round
};

/// What the user asked for; empty lists and zeros: the plan's own.
struct Wishes {
  std::string plan = "normal";
  unsigned rounds = 0;
  double seconds = 0;
  std::vector<std::uint64_t> sizes{};
  std::vector<std::uint32_t> depths{};
  std::vector<std::uint32_t> queue_pairs{};
  std::vector<std::string> operations{};
  std::vector<std::string> services{};
  std::vector<std::string> completions{};
  std::vector<double> losses{};
  std::string only{};    // a regular expression that finds titles or ids
  bool one_host = true;  // both ends here: also the bare loops, UCX and libfabric
};

/// Throws std::invalid_argument with words for the user.
[[nodiscard]] Plan make_plan(const Wishes& wishes);

}  // namespace verbena::bench
