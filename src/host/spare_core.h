#pragma once

// Is there a core that nobody else needs? The kernel says how many threads of the machine run or
// want to.

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/time.h"
#include "wire/fd.h"

namespace verbena::host {

class SpareCore {
 public:
  SpareCore();

  /// For the calling thread, while so many more are about to run: no more want to than there are
  /// cores that this process may use. False if the kernel doesn't say.
  [[nodiscard]] bool exists(Instant now, std::size_t more);

  /// In a forked child.
  void abandon() { load_.reset(); }

  /// Threads that run or want to: of "0.10 0.53 0.96 2/80 8815".
  [[nodiscard]] static std::optional<std::size_t> runnable(std::string_view loadavg);

 private:
  /// An answer is good for so long: asking takes a microsecond.
  static constexpr Duration kGoodFor = std::chrono::microseconds{200};

  [[nodiscard]] std::optional<std::size_t> ask() const;

  wire::Fd load_;
  std::size_t cores_;
  Instant asked_at_{};
  std::optional<std::size_t> running_;
};

}  // namespace verbena::host
