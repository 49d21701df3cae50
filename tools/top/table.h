#pragma once

// A table of text: sorted, filtered, and cut to the width of a screen.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::top {

struct Column {
  std::string_view title;
  bool number = false;  // aligned right; sorted by value
  int rank = 0;         // where the screen is narrow, columns with the highest rank go first
};

struct Cell {
  std::string text;
  double value = 0;  // of a number
};

struct Row {
  std::string key;  // the same thing has the same key at each look
  std::vector<Cell> cells;
  bool alarming = false;
};

struct Table {
  std::vector<Column> columns;
  std::vector<Row> rows;
};

enum class Order : bool { rising, falling };

/// Rows that are equal there keep their order.
void sort(Table& table, std::size_t column, Order order);
/// Keeps rows in which a cell contains `text`; upper and lower case are the same.
void filter(Table& table, std::string_view text);

/// A choice of columns, and the width of each.
struct Layout {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};
/// `width` 0: no limit.
[[nodiscard]] Layout layout_of(const Table& table, std::size_t width);

[[nodiscard]] std::string head_line(const Table& table, const Layout& layout);
[[nodiscard]] std::string line(const Table& table, const Layout& layout, const Row& row);

/// "0", "1.23k", "45.6M": five characters at most, below 10^15.
[[nodiscard]] std::string brief(double value);
/// A terminal must not obey what a program's name holds: only printable ASCII stays.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace verbena::top
