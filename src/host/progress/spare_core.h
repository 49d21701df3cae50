#pragma once

// Is there a core that nobody else needs? The kernel says how many threads of the machine run or
// want to.

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "system/fd.h"

namespace verbena::host {

class SpareCore {
 public:
  /// Cores that this process may use.
  SpareCore();
  explicit SpareCore(std::size_t cores);

  /// For the calling thread, while `others` more are about to run.
  [[nodiscard]] bool exists(Instant now, std::size_t others);

  /// In a forked child.
  void abandon() { load_.reset(); }

  /// Threads that run or want to: 2 of "0.10 0.53 0.96 2/80 8815".
  [[nodiscard]] static std::optional<std::size_t> runnable(std::string_view loadavg);

  /// `running`, which counts the caller, and the others have a core each. False if the kernel
  /// doesn't say how many run.
  [[nodiscard]] static constexpr bool enough(std::size_t cores, std::optional<std::size_t> running,
                                             std::size_t others) {
    // The caller runs, so 0 is no answer either.
    return running && *running > 0 && *running + others <= cores;
  }

 private:
  /// An answer is good for so long: asking takes a microsecond.
  static constexpr Duration kGoodFor = std::chrono::microseconds{200};

  [[nodiscard]] std::optional<std::size_t> ask() const;

  Fd load_;
  std::size_t cores_;  // that this process may use
  Instant asked_at_{};
  std::optional<std::size_t> running_;
};

}  // namespace verbena::host
