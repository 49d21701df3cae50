#include "tools/top/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>

namespace verbena::top {
namespace {

constexpr std::size_t kGap = 2;  // between columns

std::string lower(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::size_t width_of(const Table& table, std::size_t column) {
  std::size_t width = table.columns[column].title.size();
  for (const Row& row : table.rows) width = std::max(width, row.cells[column].text.size());
  return width;
}

std::size_t sum_of(const Layout& layout) {
  return std::accumulate(layout.widths.begin(), layout.widths.end(),
                         kGap * (layout.widths.empty() ? 0 : layout.widths.size() - 1));
}

std::string aligned(std::string_view text, std::size_t width, bool right) {
  return right ? fmt::format("{:>{}}", text, width) : fmt::format("{:<{}}", text, width);
}

template <typename TextOf>
std::string joined(const Table& table, const Layout& layout, TextOf text_of) {
  std::string result;
  for (std::size_t i = 0; i < layout.columns.size(); ++i) {
    const std::size_t column = layout.columns[i];
    if (i > 0) result.append(kGap, ' ');
    result += aligned(text_of(column), layout.widths[i], table.columns[column].number);
  }
  return result;
}

}  // namespace

void sort(Table& table, std::size_t column, Order order) {
  const bool number = table.columns[column].number;
  const auto less = [&](const Row& a, const Row& b) {
    const Cell& x = a.cells[column];
    const Cell& y = b.cells[column];
    return number ? x.value < y.value : x.text < y.text;
  };
  std::ranges::stable_sort(table.rows, [&](const Row& a, const Row& b) {
    return order == Order::rising ? less(a, b) : less(b, a);
  });
}

void filter(Table& table, std::string_view text) {
  const std::string wanted = lower(text);
  std::erase_if(table.rows, [&](const Row& row) {
    return std::ranges::none_of(row.cells, [&](const Cell& cell) {
      return lower(cell.text).find(wanted) != std::string::npos;
    });
  });
}

Layout layout_of(const Table& table, std::size_t width) {
  Layout layout;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    layout.columns.push_back(i);
    layout.widths.push_back(width_of(table, i));
  }
  while (width != 0 && layout.columns.size() > 1 && sum_of(layout) > width) {
    const auto rank = [&](std::size_t column) { return table.columns[column].rank; };
    const auto last = std::ranges::max_element(layout.columns, {}, rank);
    layout.widths.erase(layout.widths.begin() + (last - layout.columns.begin()));
    layout.columns.erase(last);
  }
  return layout;
}

std::string head_line(const Table& table, const Layout& layout) {
  return joined(table, layout, [&](std::size_t column) { return table.columns[column].title; });
}

std::string line(const Table& table, const Layout& layout, const Row& row) {
  return joined(table, layout,
                [&](std::size_t column) { return std::string_view{row.cells[column].text}; });
}

std::string brief(double value) {
  static constexpr std::array kUnits{"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) {
    const bool small = value > 0 && value < 9.95;
    return small && value != std::floor(value) ? fmt::format("{:.1f}", value)
                                               : fmt::format("{:.0f}", value);
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, kUnits[unit]);
}

std::string printable(std::string_view text) {
  std::string result{text};
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return result;
}

}  // namespace verbena::top
