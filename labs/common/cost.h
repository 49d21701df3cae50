#pragma once

// What a lab's work costs at this end, for --stats. Set-up and goodbye don't count.
//
//   lab::Work work;
//   …
//   work.done({.round_trips = 2, .needed = 2});

#include <cstdint>
#include <optional>
#include <string>

#include "labs/common/spent.h"
#include "rdma++/completion_queue.h"

namespace lab {

/// What nobody but the lab can know. A figure that it doesn't give isn't printed.
struct Known {
  std::optional<std::uint64_t> round_trips{};  // waits for the other end
  std::optional<std::uint64_t> needed{};  // completions without which it could not have gone on
  std::optional<std::uint64_t> copied{};  // bytes that the program copied
};

struct Cost {
  std::uint64_t completions = 0;  // taken from completion queues
  Spent spent{};
  Known known{};

  Cost& operator+=(const Cost& more);
};

/// Measures the calling thread from here to done().
class Work {
 public:
  /// Adds this stretch to the costs of the process, and returns it.
  Cost done(const Known& known = {});

 private:
  std::uint64_t taken_ = rdma::completions_taken;
  Spent before_ = spent_by_thread();
};

/// For work that another process has done on behalf of this one.
void add_cost(const Cost& cost);

/// In words; empty: there was no Work.
[[nodiscard]] std::string cost_of_work();

}  // namespace lab
