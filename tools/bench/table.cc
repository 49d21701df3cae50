#include "tools/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "tools/bench/columns.h"

namespace verbena::bench {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// As many terminal columns as code points: the words here are Latin.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Columns as wide as needed; the first two to the left, the others to the right.
std::string layout(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      line += (i > 0 ? "  " : "") + (i == 0 ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string number(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  if (value >= 1) return fmt::format("{:.2f}", value);
  return fmt::format("{:.3f}", value);
}

/// "9.66 (9.1 to 9.8)"; of one round the value alone.
std::string with_interval(const std::optional<Interval>& interval, double scale) {
  if (!interval) return "";
  const std::string median = number(interval->median * scale);
  if (interval->rounds == 1) return median;
  return fmt::format("{} ({}–{})", median, number(interval->low * scale),
                     number(interval->high * scale));
}

/// "2.98 ×" if the rounds agree that there is a difference; "≈" if the noise is larger.
std::string against_tcp(const Results& results, const Measured& one, const std::string& figure) {
  const Measured* const tcp = tcp_beside(results, one.spec);
  if (tcp == nullptr || tcp == &one) return "";
  const auto ratios = ratio_of(one, *tcp, figure);
  if (!ratios) return "";
  switch (verdict_of_ratios(*ratios)) {
    case Verdict::greater:
    case Verdict::less:
      return fmt::format("{:.2f}", ratios->median);
    case Verdict::too_few:
      return fmt::format("({:.2f})", ratios->median);
    default:
      return "≈";
  }
}

std::string table(const Results& results, const Section& section) {
  Rows rows;
  rows.push_back({section.title});
  for (const Column& column : section.columns) rows.front().push_back(column.head);
  rows.front().emplace_back("× TCP");
  for (const Measured& one : results.measured) {
    if (!section.contains(one.spec)) continue;
    rows.push_back({fmt::format("{:<9}{}", size_text(one.spec.size), title_of(one.spec))});
    if (one.spec.transport == "rdma" && one.spec.test == "bandwidth" &&
        one.spec.depth != kUsualDepth) {
      rows.back().front() += fmt::format(", depth {}", one.spec.depth);
    }
    for (const Column& column : section.columns) {
      rows.back().push_back(with_interval(one.interval(column.figure), column.scale));
    }
    rows.back().push_back(against_tcp(results, one, section.columns.front().figure));
  }
  return rows.size() > 1 ? layout(rows) + "\n" : "";
}

std::string header(const Results& results) {
  const auto about = [&](const char* name) {
    const auto found = results.machine.find(name);
    return found == results.machine.end() ? std::string{"unknown"} : found->second;
  };
  std::string text = fmt::format(
      "{}, {} CPUs on {} cores, {}, verbena {}\nload {} before, {} after; devices: {}{}\n",
      about("processor"), about("cpus"), about("cores"), about("kernel"), about("verbena"),
      about("load_before"), about("load_after"), about("devices"),
      results.host.empty() ? ", both ends on this machine" : ", the other end on " + results.host);
  text += fmt::format("plan {}: {} rounds, {:g} s for each measurement\n", results.plan,
                      results.rounds, results.seconds);
  return text;
}

std::string footer(const Results& results) {
  std::string text;
  const double coverage = coverage_of_rounds(results.rounds);
  if (results.rounds > 1) {
    text += fmt::format(
        "Medians, and the interval that holds the true median with {:.1f} %: order statistics of "
        "{} rounds.\n",
        100 * coverage, results.rounds);
  }
  text +=
      results.rounds < kLeastRounds
          ? fmt::format("× TCP in parentheses: {} rounds are too few to conclude; {} are enough.\n",
                        results.rounds, kLeastRounds)
          : "× TCP: median of the rounds' ratios; ≈: the noise is larger than the difference.\n";
  std::set<std::string> said;
  for (const Absence& one : results.skipped) {
    if (said.insert(one.why).second) {
      text += fmt::format("skipped: {}: {}\n", title_of(one.spec), one.why);
    }
  }
  for (const Absence& one : results.failed) {
    if (said.insert(one.why).second) {
      text += fmt::format("FAILED: {}: {}\n", title_of(one.spec), one.why);
    }
  }
  return text;
}

}  // namespace

std::string table_of(const Results& results) {
  std::string text = header(results) + "\n";
  for (const Section& section : sections()) text += table(results, section);
  return text + footer(results);
}

}  // namespace verbena::bench
