#pragma once

#include <vector>

#include "tools/report/model.h"

namespace verbena::report {

/// Finds the work requests: those that were posted, and, of ends that weren't traced, those that
/// their packets show. Sets Event::request of what belongs to one. `events`: in the order of time.
[[nodiscard]] std::vector<Request> find_requests(const std::vector<Conversation>& conversations,
                                                 std::vector<Event>& events);

}  // namespace verbena::report
