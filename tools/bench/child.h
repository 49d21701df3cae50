#pragma once

// A program that measures, run to its end.

#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace verbena::bench {

struct ChildResult {
  int status = 0;      // exit status, 128 + signal, or kLate
  std::string output;  // stdout
  std::string errors;  // stderr, its beginning

  static constexpr int kLate = -1;  // killed at the time limit, or by `stop`
};

using Environment = std::vector<std::pair<std::string, std::string>>;  // beside our own

/// `stop`: kills it as soon as this is true, which a signal's handler may set. Throws
/// std::system_error if it can't be started.
[[nodiscard]] ChildResult run_to_end(const std::vector<std::string>& command,
                                     const Environment& environment,
                                     std::chrono::milliseconds limit,
                                     const std::atomic<bool>* stop = nullptr);

/// A server beside it, which is killed with the object. Its output is thrown away.
class Background {
 public:
  Background(const std::vector<std::string>& command, const Environment& environment);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();

  [[nodiscard]] bool is_running() const;
  /// Until it ends by itself, which lets it remove its files; not longer than `limit`.
  void wait_for_end(std::chrono::milliseconds limit) const;

 private:
  int pid_;
};

/// The program's path by PATH; empty: there is none.
[[nodiscard]] std::string find_in_path(const std::string& name);

}  // namespace verbena::bench
