#pragma once

// Runs one lab as a child and reads what it says: `verbena lab all` and `make run` stand on it.

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tool {

inline constexpr int kExitSkipped = 77;  // as automake has it: what the lab needs is missing here

struct LabResult {
  int status = 0;  // exit status; 128 + n: ended by signal n
  std::string output;
  std::chrono::milliseconds took{0};
};

/// Until it has ended: its exit status; 128 + n: ended by signal n. Throws std::system_error.
[[nodiscard]] int wait_for(pid_t child);

/// `command` with its standard output and error read to the end. Throws std::system_error.
[[nodiscard]] LabResult run_lab(const std::vector<std::string>& command);

/// What follows "shown: " in the last such line: what the lab says that it has shown.
[[nodiscard]] std::string_view shown_in(std::string_view output);

}  // namespace verbena::tool
