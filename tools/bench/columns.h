#pragma once

// Which measurements stand in which table, with which figures.

#include <functional>
#include <string>
#include <vector>

#include "tools/bench/results.h"

namespace verbena::bench {

inline constexpr std::uint32_t kUsualDepth = 64;

struct Column {
  std::string head;
  std::string figure;
  double scale = 1;
};

struct Section {
  std::string title;
  std::vector<Column> columns;  // the first is compared with TCP
  std::function<bool(const Spec&)> contains;
};

/// In the order in which they are shown. Each measurement is in exactly one.
[[nodiscard]] const std::vector<Section>& sections();

/// TCP of the same size and kind in the same run, or nullptr.
[[nodiscard]] const Measured* tcp_beside(const Results& results, const Spec& spec);

/// The probability that belongs to intervals of so many rounds.
[[nodiscard]] double coverage_of_rounds(unsigned rounds);

}  // namespace verbena::bench
