#pragma once

// The command lines of `verbena top` and `verbena metrics`.

#include "tools/verbena/commands.h"

namespace CLI {
class App;
}

namespace verbena::tool {

CLI::App* add_top(CLI::App& app, TopOptions& options);
CLI::App* add_metrics(CLI::App& app, MetricsOptions& options);

}  // namespace verbena::tool
