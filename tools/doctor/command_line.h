#pragma once

#include "tools/verbena/commands.h"

namespace CLI {
class App;
}

namespace verbena::tool {

/// Adds `doctor` with its options and examples.
CLI::App* add_doctor(CLI::App& app, DoctorOptions& options);

}  // namespace verbena::tool
