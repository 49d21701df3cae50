#include "tools/bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace verbena::bench {
namespace {

constexpr const char* kBandwidthFigures[] = {"gb_per_s", "cpu_s_per_gb"};
constexpr const char* kLatencyFigures[] = {"p50_us", "p99_us"};

std::vector<std::string> figures_of(const Spec& spec) {
  if (spec.test == "latency") return {std::begin(kLatencyFigures), std::end(kLatencyFigures)};
  return {std::begin(kBandwidthFigures), std::end(kBandwidthFigures)};
}

/// How far the bare programs of a kind moved; nullopt: none is in both runs.
std::optional<double> drift_of(const Results& before, const Results& after, const char* test,
                               const char* figure) {
  std::vector<double> moves;
  for (const Measured& now : after.measured) {
    if (now.spec.test != test || !is_control(now.spec)) continue;
    const Measured* const then = before.find(now.spec);
    if (then == nullptr) continue;
    const auto a = then->interval(figure), b = now.interval(figure);
    if (a && b && a->median > 0 && b->median > 0) {
      moves.push_back(std::abs(std::log(b->median / a->median)));
    }
  }
  if (moves.empty()) return std::nullopt;
  return std::expm1(interval_of(std::move(moves)).median);
}

bool is_same_machine(const Results& before, const Results& after) {
  return std::ranges::all_of(std::vector<std::string>{"processor", "cpus", "cores", "kernel"},
                             [&](const std::string& name) {
                               const auto a = before.machine.find(name);
                               const auto b = after.machine.find(name);
                               return a != before.machine.end() && b != after.machine.end() &&
                                      a->second == b->second;
                             });
}

std::string line_of(const Change& change) {
  return fmt::format(
      "  {:<8} {:<9} {:<26} {:<13} {:>9.4g} → {:<9.4g} {:+.0f} %  ({:.4g}–{:.4g} → "
      "{:.4g}–{:.4g})\n",
      change.spec.test == "latency" ? "latency" : "stream", size_text(change.spec.size),
      title_of(change.spec), change.figure, change.before.median, change.after.median,
      100 * (change.after.median / change.before.median - 1), change.before.low, change.before.high,
      change.after.low, change.after.high);
}

std::string drift_text(const char* what, const std::optional<double>& drift) {
  if (!drift) return fmt::format("{} unknown (no bare program is in both runs)", what);
  return fmt::format("{} {:.0f} %", what, 100 * *drift);
}

}  // namespace

double Change::gain() const {
  const double factor = after.median / before.median;
  return less_is_better(figure) ? 1 / factor : factor;
}

bool Change::is_slower() const {
  return (verdict == Verdict::greater || verdict == Verdict::less) && gain() < 1;
}

std::size_t Comparison::slower() const {
  return static_cast<std::size_t>(std::ranges::count_if(changes, &Change::is_slower));
}

Comparison compare(const Results& before, const Results& after) {
  Comparison result;
  result.bandwidth_drift = drift_of(before, after, "bandwidth", "gb_per_s");
  result.latency_drift = drift_of(before, after, "latency", "p50_us");
  result.same_machine = is_same_machine(before, after);
  for (const Measured& now : after.measured) {
    const Measured* const then = before.find(now.spec);
    if (then == nullptr || is_control(now.spec)) continue;
    const auto& drift = now.spec.test == "latency" ? result.latency_drift : result.bandwidth_drift;
    for (const std::string& figure : figures_of(now.spec)) {
      const auto a = then->interval(figure), b = now.interval(figure);
      if (!a || !b) continue;
      const double least = std::max(kLeastChange, drift.value_or(0));
      result.changes.push_back({now.spec, figure, *a, *b, verdict_of_runs(*a, *b, least)});
    }
  }
  return result;
}

std::string text_of(const Comparison& comparison, const std::string& name) {
  const auto count = [&](auto matches) {
    return std::ranges::count_if(comparison.changes, matches);
  };
  const auto is_faster = [](const Change& one) {
    return (one.verdict == Verdict::greater || one.verdict == Verdict::less) && one.gain() > 1;
  };
  std::string text = fmt::format("Compared with {}:\n", name);
  if (!comparison.same_machine) {
    text += "  ! another processor, kernel or number of CPUs: the figures can't be compared\n";
  }
  if (comparison.changes.empty()) return text + "  the runs have no measurement in common\n";
  text += fmt::format("  bare programs, without Verbena, moved: {}, {}\n",
                      drift_text("bandwidth", comparison.bandwidth_drift),
                      drift_text("latency", comparison.latency_drift));
  const auto list = [&](const char* title, auto matches) {
    if (count(matches) == 0) return;
    text += fmt::format("{}:\n", title);
    for (const Change& one : comparison.changes) {
      if (matches(one)) text += line_of(one);
    }
  };
  list("slower", [](const Change& one) { return one.is_slower(); });
  list("faster", is_faster);
  const auto few = count([](const Change& one) { return one.verdict == Verdict::too_few; });
  const auto same = count([](const Change& one) { return one.verdict == Verdict::same; });
  const auto unclear = count([](const Change& one) { return one.verdict == Verdict::unclear; });
  text += fmt::format(
      "{} slower, {} faster; {} within {:.0f} % or the machine's own drift; {} without "
      "a conclusion, because the noise is larger than the difference\n",
      comparison.slower(), count(is_faster), same, 100 * kLeastChange, unclear);
  if (few > 0) {
    text += fmt::format(
        "{} have fewer than {} rounds in a run, too few to conclude: take --rounds {}\n", few,
        kLeastRounds, kLeastRounds + 1);
  }
  return text;
}

}  // namespace verbena::bench
