#pragma once

// How one process of a lab runs: for the frames in this folder, not for labs.

#include <functional>
#include <string>

#include "labs/common/lab.h"

namespace lab {

/// The exit status of one process; what it says begins with `name`.
int play(const std::function<void(const Options&)>& part, const Options& options,
         const std::string& name);

/// A wait that no deadline bounds would keep the process for ever: this ends it, soon after `limit`
/// seconds. What waits with a deadline says more, and goes first.
void end_at_timeout(unsigned limit);

}  // namespace lab
