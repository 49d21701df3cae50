// `verbena trace`: runs a program, and shows what its queue pairs did.

#include <cstdio>
#include <system_error>
#include <utility>

#include "tools/verbena/commands.h"
#include "tools/verbena/traced_child.h"

namespace verbena::tool {
int trace(const TraceOptions& options) {
  try {
    const TraceFile file{options.output};
    std::vector<std::string> words{"verbena", "run", "--trace", file.path(), "--wire", "udp"};
    if (!options.faults.empty()) words.insert(words.end(), {"--faults", options.faults});
    words.emplace_back("--");
    words.insert(words.end(), options.command.begin(), options.command.end());
    const int status = run_child("/proc/self/exe", std::move(words));
    if (status == kExitRefused || status == kExitNotFound || status == kExitUsage) return status;
    if (options.output.empty() || options.report) {
      ReportOptions shown;
      shown.files = {file.path()};
      shown.fold = true;
      shown.html = options.html;
      std::fflush(stdout);
      if (const int failed = report(shown); failed != 0 && status == 0) return failed;
    }
    return status;
  } catch (const std::system_error& error) {
    return fail("trace", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
