#pragma once

// The rule of the specification that says why an event is there, or what it has to keep to. Numbers
// are those that src/ and docs/conformance.md cite.

#include <cstdint>
#include <span>
#include <string_view>

#include "tools/report/model.h"

namespace verbena::report {

struct Rule {
  std::string_view number;  // "C9-105 ff.", "IBA 9.7.5.2.8"
  std::string_view text;
};

/// The first stands for "none of these" and is empty.
[[nodiscard]] std::span<const Rule> rules();

/// Place in rules().
[[nodiscard]] std::uint8_t rule_of(const Event& event);

}  // namespace verbena::report
