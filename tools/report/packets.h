#pragma once

#include <vector>

#include "tools/report/conversations.h"
#include "tools/report/model.h"
#include "tools/report/observation.h"

namespace verbena::report {

/// The clocks of machines and captures, compared by the packets that both ends saw.
struct Clock {
  std::int64_t offset = 0;  // to add to its times, so that they are the first clock's
  bool compared = false;    // by packets; else by the walls' clocks
};

/// An entry for each observer.
[[nodiscard]] std::vector<Clock> compare_clocks(const Observations& seen, const Conversations& of);

/// Joins what was seen of each packet where it left and where it arrived. `times`: of the
/// observations, by one clock.
[[nodiscard]] std::vector<Event> join_packets(const Observations& seen, const Conversations& of,
                                              const std::vector<Time>& times);

}  // namespace verbena::report
