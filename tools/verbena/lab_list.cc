#include "tools/verbena/lab_list.h"

#include <algorithm>
#include <numeric>

namespace verbena::tool {
namespace {

constexpr std::string_view kBlank = " \t\r";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Levenshtein's: how many letters must be added, dropped or changed.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row.back();
}

}  // namespace

std::vector<LabEntry> parse_lab_list(std::string_view text) {
  std::vector<LabEntry> labs;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto space = std::min(line.find_first_of(kBlank), line.size());
    labs.push_back({std::string{line.substr(0, space)}, std::string{trimmed(line.substr(space))}});
  }
  return labs;
}

std::optional<std::string> nearest_lab(const std::vector<LabEntry>& labs, std::string_view name) {
  const auto nearest = std::min_element(labs.begin(), labs.end(), [&](auto& a, auto& b) {
    return distance(a.name, name) < distance(b.name, name);
  });
  if (nearest == labs.end() || distance(nearest->name, name) > 1 + name.size() / 3) return {};
  return nearest->name;
}

}  // namespace verbena::tool
