#pragma once

#include <cstdint>
#include <optional>

#include "tools/report/model.h"

namespace verbena::report {

/// What of a report is wanted. Nothing set: all of it.
struct Filter {
  std::optional<std::uint32_t> qpn;
  std::optional<Time> from;
  std::optional<Time> to;
  bool only_errors = false;  // losses, repetitions, refusals, and requests that failed
};

/// A sign that something went wrong.
[[nodiscard]] bool is_error(const Event& e);

/// Leaves out what isn't wanted. Requests stay if one of their events does.
void apply(const Filter& filter, Model& model);

}  // namespace verbena::report
