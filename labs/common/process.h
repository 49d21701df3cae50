#pragma once

// Processes that a lab starts, and that end with it.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace lab {

/// Move-only. One that is destroyed while it runs is killed and waited for.
class Process {
 public:
  /// Forks; in the child, exits with what work() returns, or with 1 if it throws. Its first verb
  /// comes after that. Throws Failed.
  explicit Process(const std::function<int()>& work);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  /// Asks it to end (SIGTERM).
  void end() const;
  /// False: it still runs after that time.
  [[nodiscard]] bool ended_within(std::chrono::milliseconds time) const;
  /// Until it has ended: its exit status, or 128 and the signal's number.
  [[nodiscard]] int wait();

  /// Until one of them has ended: its place.
  [[nodiscard]] static std::size_t wait_for_any(const std::vector<Process>& processes);

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;  // readable when it has ended
};

/// What a status says that no exit(3) of a lab gives: "Killed". Empty: it is one of those.
[[nodiscard]] std::string signal_in(int status);

}  // namespace lab
