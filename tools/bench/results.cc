#include "tools/bench/results.h"

#include <algorithm>

namespace verbena::bench {

std::vector<double> Measured::values(const std::string& figure) const {
  std::vector<double> result;
  for (const auto& round : rounds) {
    if (!round) continue;
    if (const auto found = round->figures.find(figure); found != round->figures.end()) {
      result.push_back(found->second);
    }
  }
  return result;
}

std::optional<Interval> Measured::interval(const std::string& figure) const {
  auto all = values(figure);
  if (all.empty()) return std::nullopt;
  return interval_of(std::move(all));
}

Histogram Measured::times() const {
  Histogram sum;
  for (const auto& round : rounds) {
    if (round) sum.merge(round->times);
  }
  return sum;
}

const Measured* Results::find(const Spec& spec) const {
  const auto id = id_of(spec);
  const auto found =
      std::ranges::find_if(measured, [&](const Measured& one) { return id_of(one.spec) == id; });
  return found == measured.end() ? nullptr : &*found;
}

std::optional<Interval> ratio_of(const Measured& a, const Measured& b, const std::string& figure) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(a.rounds.size(), b.rounds.size()); ++i) {
    if (!a.rounds[i] || !b.rounds[i]) continue;
    const auto ours = a.rounds[i]->figures.find(figure);
    const auto theirs = b.rounds[i]->figures.find(figure);
    if (ours == a.rounds[i]->figures.end() || theirs == b.rounds[i]->figures.end()) continue;
    if (theirs->second > 0) ratios.push_back(ours->second / theirs->second);
  }
  if (ratios.empty()) return std::nullopt;
  return interval_of(std::move(ratios));
}

bool less_is_better(const std::string& figure) { return !figure.ends_with("_per_s"); }

}  // namespace verbena::bench
