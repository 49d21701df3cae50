#pragma once

// The text of `verbena metrics`: Prometheus' exposition format 0.0.4.

#include <cstddef>
#include <string>

#include "tools/top/sample.h"

namespace verbena::top {

/// At most `queue_pairs` of each process one by one, those with the lowest numbers.
[[nodiscard]] std::string as_metrics(const Sample& sample, std::size_t queue_pairs);

}  // namespace verbena::top
