#include "tools/verbena/cli_report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace verbena::tool {
namespace {

/// CLI11 takes "nan" for a number, and makes a count of "-1".
std::string check_milliseconds(const std::string& text) {
  constexpr double kMost = 9e12;  // as nanoseconds they fit into 64 bits
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  const bool fine = problem == std::errc{} && rest == end && std::abs(value) <= kMost;
  return fine ? "" : fmt::format("\"{}\" is no time in milliseconds, such as 12.5", text);
}

std::string check_count(const std::string& text) {
  const char* const end = text.data() + text.size();
  std::size_t value = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  return problem == std::errc{} && rest == end
             ? ""
             : fmt::format("\"{}\" is no number of lines, such as 60", text);
}

constexpr auto kReportExamples = R"(Examples:
  verbena report out.jsonl                        a ladder for each conversation, then a summary
  verbena report out.jsonl --only errors          losses, retransmissions, NAKs, failed requests
  verbena report out.jsonl --html out.html        one page to zoom and click, for any browser
  verbena report left.jsonl right.jsonl           two machines, merged packet by packet
  verbena report capture.pcapng                   a capture of any device: hardware, SoftRoCE

FILE is a trace (--trace FILE of verbena run) or a capture (pcapng or pcap; tcpdump -w, --pcap).
Times are milliseconds since the first event of the report.

Exit status: 0; 1 if a file can't be read or written.)";

}  // namespace

CLI::App* add_report(CLI::App& app, ReportOptions& options, const CLI::Validator& is_file) {
  CLI::App* const report = app.add_subcommand(
      "report", "Draw the packets of traces and captures between their two ends");
  report->add_option("FILE", options.files, "Traces and captures")->required()->type_name("FILE…");
  report
      ->add_option("--qp", options.qpn,
                   "Show only this queue pair and its peer, for example 0x0001a2")
      ->type_name("QPN");
  report->add_option("--from", options.from, "Show only events from this time on")
      ->type_name("MILLISECONDS")
      ->check(CLI::Validator{check_milliseconds, ""});
  report->add_option("--to", options.to, "Show only events up to this time")
      ->type_name("MILLISECONDS")
      ->check(CLI::Validator{check_milliseconds, ""});
  report->add_option("--only", options.only, "Show only losses, NAKs, retries and errors")
      ->check(CLI::IsMember({"errors"}));
  report->add_flag("--states", options.states, "Show changes of state, too");
  report->add_flag("--fold", options.fold, "Print repeated lines once");
  report->add_option("--lines", options.lines, "Print at most COUNT lines of each ladder")
      ->type_name("COUNT")
      ->check(CLI::Validator{check_count, ""});
  report->add_flag("--summary", options.summary, "Print the summary only");
  report->add_flag("--requests", options.requests, "List every request, not only the slowest 20");
  report
      ->add_option("--html", options.html,
                   "Write the report to FILE, as one self-contained HTML page")
      ->type_name("FILE")
      ->check(is_file);
  report->add_option("--svg", options.svg, "Write the first ladder as a picture to FILE")
      ->type_name("FILE")
      ->check(is_file);
  report->footer(kReportExamples);
  return report;
}

}  // namespace verbena::tool
