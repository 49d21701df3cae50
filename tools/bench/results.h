#pragma once

// All rounds of a run, and what they tell about a figure.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/plan.h"
#include "tools/bench/sample.h"
#include "tools/bench/statistics.h"

namespace verbena::bench {

/// One measurement, and its rounds; nullopt: that round failed.
struct Measured {
  Spec spec;
  std::vector<std::optional<Sample>> rounds{};

  /// The values of a figure, of the rounds that have it.
  [[nodiscard]] std::vector<double> values(const std::string& figure) const;
  [[nodiscard]] std::optional<Interval> interval(const std::string& figure) const;
  /// The times of all rounds together.
  [[nodiscard]] Histogram times() const;
};

/// Why a measurement, or a round of it, is missing.
struct Absence {
  Spec spec;
  std::string why;
};

struct Results {
  std::string plan;
  unsigned rounds = 0;
  double seconds = 0;
  std::map<std::string, std::string> machine{};  // see machine.h
  std::string host{};                            // of the other end; empty: this one
  std::vector<Measured> measured{};
  std::vector<Absence> skipped{};
  std::vector<Absence> failed{};
  std::string broken_off{};  // why the run ended early; empty: it didn't

  [[nodiscard]] const Measured* find(const Spec& spec) const;
};

/// `a / b`, round by round: what moved between rounds moved both. nullopt: no round has both.
[[nodiscard]] std::optional<Interval> ratio_of(const Measured& a, const Measured& b,
                                               const std::string& figure);

/// A name from above. True: less of it is better.
[[nodiscard]] bool less_is_better(const std::string& figure);

}  // namespace verbena::bench
