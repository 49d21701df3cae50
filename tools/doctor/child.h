#pragma once

// Other programs, and this one again with the preload library: whatever happens there, the doctor
// lives on and can say so.

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace verbena::doctor {

struct Outcome {
  int status = 0;  // 128 + N: ended by signal N
  bool in_time = true;
  std::string output;  // standard output
  std::string errors;  // standard error
};

/// A started program; it is killed at the latest by the destructor.
class Child {
 public:
  /// std::system_error: it can't be started.
  explicit Child(const std::vector<std::string>& command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The first line of its output. nullopt: it ended before that, or the time is over.
  [[nodiscard]] std::optional<std::string> first_line(std::chrono::milliseconds patience);
  /// Its end; it is killed if it isn't there in time.
  [[nodiscard]] Outcome wait(std::chrono::milliseconds patience);
  /// Kills it.
  [[nodiscard]] Outcome end();

 private:
  using Clock = std::chrono::steady_clock;
  /// False: both ends are closed, or the time is over.
  bool read_more(Clock::time_point until);
  int reap();

  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  Outcome outcome_;
};

/// This program itself.
[[nodiscard]] std::vector<std::string> verbena_with(std::vector<std::string> words);

/// Status 127: there is no such program.
[[nodiscard]] Outcome run_program(const std::vector<std::string>& command,
                                  std::chrono::milliseconds patience);

}  // namespace verbena::doctor
