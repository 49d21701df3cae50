// `verbena report`: what traces and captures show, as a ladder, a summary, a page or a picture.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "tools/report/build.h"
#include "tools/report/filter.h"
#include "tools/report/ladder.h"
#include "tools/report/page.h"
#include "tools/report/summary.h"
#include "tools/report/svg.h"
#include "tools/report/text_width.h"
#include "tools/verbena/commands.h"

namespace verbena::tool {
namespace {

namespace fs = std::filesystem;

/// Empty: written.
std::string write_file(const std::string& path, const std::string& text) {
  std::ofstream file{path, std::ios::binary | std::ios::trunc};
  file << text;
  file.close();
  return file ? ""
              : fmt::format("{}: {}; name a file that can be written", path, std::strerror(errno));
}

report::Filter filter_of(const ReportOptions& options) {
  report::Filter filter;
  filter.qpn = options.qpn;
  constexpr double kNanoseconds = 1e6;  // in a millisecond
  const auto time = [](const std::optional<double>& milliseconds) -> std::optional<report::Time> {
    if (!milliseconds) return std::nullopt;
    return static_cast<report::Time>(*milliseconds * kNanoseconds);
  };
  filter.from = time(options.from);
  filter.to = time(options.to);
  filter.only_errors = options.only == "errors";
  return filter;
}

std::string remarks_text(const std::vector<std::string>& remarks) {
  std::string text;
  for (const std::string& remark : remarks) text += report::printable(remark) + "\n";
  return text;
}

std::string sources_text(const report::Model& model) {
  std::string text;
  for (const report::Source& source : model.sources) {
    if (!source.shifted) continue;
    text +=
        fmt::format("{}: times shifted by {:.3f} ms, so that no packet arrives before it leaves\n",
                    report::printable(source.file), static_cast<double>(source.offset) / 1e6);
  }
  return text + remarks_text(model.remarks);
}

/// Of a file that is given twice, one is read.
std::vector<std::string> distinct_files(const std::vector<std::string>& files,
                                        std::vector<std::string>& remarks) {
  std::vector<std::string> distinct;
  for (const std::string& file : files) {
    std::error_code unknown;  // reading it says why
    const auto same = std::ranges::find_if(
        distinct, [&](const auto& other) { return fs::equivalent(file, other, unknown); });
    if (same == distinct.end()) {
      distinct.push_back(file);
    } else {
      remarks.push_back(fmt::format("{} is the same file as {}, and is read once", file, *same));
    }
  }
  return distinct;
}

/// Empty: no output replaces what the report is made of, or the other output.
std::string overwritten(const ReportOptions& options) {
  std::error_code unknown;
  for (const std::string& output : {options.html, options.svg}) {
    for (const std::string& input : options.files) {
      if (output.empty() || !fs::equivalent(output, input, unknown)) continue;
      return fmt::format("{}: the report would overwrite its input; name another file", output);
    }
  }
  if (!options.html.empty() &&
      fs::weakly_canonical(options.html, unknown) == fs::weakly_canonical(options.svg, unknown)) {
    return fmt::format("--html and --svg name the same file {}; use two files", options.html);
  }
  return "";
}

/// Writes the files that were asked for; empty: all are written.
std::string write_files(const ReportOptions& options, const report::Model& model,
                        const report::RowOptions& rows) {
  if (!options.html.empty()) {
    std::string problem = write_file(options.html, report::page(model));
    if (!problem.empty()) return problem;
  }
  if (options.svg.empty()) return "";
  report::RowOptions in_picture = rows;
  in_picture.rest = false;
  return write_file(options.svg, report::svg(model, in_picture));
}

}  // namespace

int report(const ReportOptions& options) {
  try {
    if (const auto problem = overwritten(options); !problem.empty()) {
      return fail("report", kExitFailure, report::printable(problem));
    }
    std::vector<std::string> remarks;
    report::Observations seen = report::read_files(distinct_files(options.files, remarks));
    seen.remarks.insert(seen.remarks.begin(), remarks.begin(), remarks.end());
    if (seen.all.empty()) {
      fmt::print("{}", remarks_text(seen.remarks));  // they say why
      if (std::ranges::any_of(seen.observers, &report::Observer::traced)) {
        fmt::print("no queue pair did anything\n");
        return 0;
      }
    }
    report::Model model = report::build_model(seen);
    const bool was_empty = model.events.empty();
    report::apply(filter_of(options), model);
    fmt::print("{}", sources_text(model));
    if (model.events.empty()) {
      fmt::print("{}\n", was_empty ? "no queue pair did anything"
                                   : "no event matches --qp, --from, --to and --only");
      return 0;
    }
    const report::RowOptions rows{.states = options.states,
                                  .fold = options.fold,
                                  .most = options.lines,
                                  .ladders = options.ladders};
    if (!options.html.empty() || !options.svg.empty()) {
      const std::string problem = write_files(options, model, rows);
      return problem.empty() ? 0 : fail("report", kExitFailure, problem);
    }
    if (!options.summary)
      fmt::print("{}\n", report::ladder(model, rows, isatty(STDOUT_FILENO) == 1));
    constexpr std::size_t kFew = 20;
    fmt::print("{}", options.brief ? report::totals(model)
                                   : report::summary(model, options.requests ? 0 : kFew));
    return 0;
  } catch (const std::runtime_error& error) {
    return fail("report", kExitFailure, report::printable(error.what()));
  }
}

}  // namespace verbena::tool
