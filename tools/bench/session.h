#pragma once

// A whole run: every measurement once in each round, so that a machine that is noisy for a while is
// noisy to all of them.

#include "tools/bench/plan.h"
#include "tools/bench/results.h"
#include "tools/bench/runner.h"

namespace verbena::bench {

/// If a signal sets `where.stop`, what was measured until then is returned.
[[nodiscard]] Results measure(const Plan& plan, const Surroundings& where);

}  // namespace verbena::bench
