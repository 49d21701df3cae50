#pragma once

// The command line of `verbena report`.

#include "tools/verbena/commands.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace verbena::tool {

/// `is_file`: what a name of a file that is written must be.
CLI::App* add_report(CLI::App& app, ReportOptions& options, const CLI::Validator& is_file);

}  // namespace verbena::tool
