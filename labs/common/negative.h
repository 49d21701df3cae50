#pragma once

#include <string>

namespace lab {

/// What is wrong with a number below 0, or nothing: CLI11 takes -1 for 2^64 - 1.
[[nodiscard]] inline std::string negative_problem(const std::string& text) {
  return text.find('-') < text.find_first_of("0123456789") ? text + " is negative" : "";
}

}  // namespace lab
