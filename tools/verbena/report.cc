// `verbena report`: what traces and captures show, as a ladder, a summary, a page or a picture.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

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

std::string sources_text(const report::Model& model) {
  std::string text;
  for (const report::Source& source : model.sources) {
    if (!source.shifted) continue;
    text +=
        fmt::format("{}: times shifted by {:.3f} ms, so that no packet arrives before it leaves\n",
                    report::printable(source.file), static_cast<double>(source.offset) / 1e6);
  }
  for (const std::string& remark : model.remarks) text += report::printable(remark) + "\n";
  return text;
}

/// Writes the files that were asked for; empty: all are written.
std::string write_files(const ReportOptions& options, const report::Model& model,
                        const report::RowOptions& rows) {
  if (!options.html.empty()) {
    if (const auto problem = write_file(options.html, report::page(model)); !problem.empty()) {
      return problem;
    }
  }
  if (options.svg.empty()) return "";
  report::RowOptions in_picture = rows;
  in_picture.rest = false;
  return write_file(options.svg, report::svg(model, in_picture));
}

}  // namespace

int report(const ReportOptions& options) {
  try {
    report::Model model = report::build_model(report::read_files(options.files));
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
