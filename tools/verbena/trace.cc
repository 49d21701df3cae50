// `verbena trace`: runs a program, and shows what its queue pairs did.

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "tools/verbena/commands.h"
#include "tools/verbena/prepared_output.h"
#include "tools/verbena/traced_child.h"

namespace verbena::tool {
namespace {

/// The file of --html, checked before the program starts. It is removed if it is new and nothing
/// was written into it.
class Page {
 public:
  Page(const std::string& html, const std::string& trace) : path_{html} {
    std::error_code unknown;
    const auto status = std::filesystem::status(path_, unknown);
    if (path_.empty() || std::filesystem::is_fifo(status)) return;
    fresh_ = !std::filesystem::exists(status);
    const std::string problem = prepare_output(path_, EarlierContent::kept).problem;
    if (!problem.empty()) {
      problem_ = "--html " + problem;
    } else if (std::filesystem::equivalent(path_, trace, unknown)) {
      problem_ = fmt::format("-o and --html name the same file {}; use two files", path_);
    }
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    std::error_code unknown;
    if (fresh_ && std::filesystem::file_size(path_, unknown) == 0) {
      std::filesystem::remove(path_, unknown);
    }
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::string path_;
  std::string problem_;
  bool fresh_ = false;
};

/// The exit status.
int show(const TraceOptions& options, TraceFile& file) {
  if (file.is_empty()) {
    return fail("trace", 0, "the program opened no device: there is nothing to show");
  }
  ReportOptions shown;
  shown.files = {file.path()};
  shown.fold = true;
  shown.html = options.html;
  const int failed = report(shown);
  if (failed != 0) file.keep("trace");
  return failed;
}

}  // namespace

int trace(const TraceOptions& options) {
  try {
    TraceFile file{options.output};
    const Page page{options.html, file.path()};
    if (!page.problem().empty()) return fail("trace", kExitUsage, page.problem());
    std::vector<std::string> words{"verbena", "run", "--trace", file.path(), "--wire", "udp"};
    if (!options.faults.empty()) words.insert(words.end(), {"--faults", options.faults});
    words.emplace_back("--");
    words.insert(words.end(), options.command.begin(), options.command.end());
    const int status = run_child("/proc/self/exe", words);
    if (status == kExitRefused || status == kExitNotFound || status == kExitUsage) return status;
    if (!options.output.empty() && !options.report && options.html.empty()) return status;
    std::fflush(stdout);
    const int failed = show(options, file);
    return status != 0 ? status : failed;
  } catch (const std::system_error& error) {
    return fail("trace", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
