#pragma once

// What the screen shows, and how keys change it. Nothing here touches a terminal.
//
//   table ── Enter ──► details of the selected row
//     │  ◄── Esc ───
//     └─── / ───────► the filter is typed; Enter keeps it, Esc removes it

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/top/keys.h"
#include "tools/top/tables.h"

namespace verbena::top {

enum class Style : std::uint8_t { plain, strong, head, selected, alarming, keys };

struct Line {
  std::string text;
  Style style = Style::plain;

  friend bool operator==(const Line&, const Line&) = default;
};

struct Size {
  std::size_t columns = 80;
  std::size_t lines = 24;
};

class Pages {
 public:
  Pages(View view, double interval) : view_{view}, interval_{interval} {}

  /// Every table is sorted by the column of that title, where it has one.
  void sort_by(std::string title) { title_ = std::move(title); }
  void filter_by(std::string text) { filter_ = std::move(text); }

  enum class Outcome : std::uint8_t { stay, quit };
  Outcome handle(const Key& key);

  /// As many lines as the screen has. Keeps the selection on it.
  [[nodiscard]] std::vector<Line> draw(const Pair& looks, Size size);

  /// Seconds between two looks.
  [[nodiscard]] double interval() const { return interval_; }
  [[nodiscard]] bool paused() const { return paused_; }

 private:
  enum class Page : std::uint8_t { table, details, help };

  void handle_filter(const Key& key);
  void handle_character(char c);
  void move(long rows);
  void choose_column(int step);
  void show(View view);
  [[nodiscard]] Table sorted_table(const Pair& looks);
  [[nodiscard]] std::vector<Line> table_lines(const Pair& looks, Size size);
  [[nodiscard]] std::vector<Line> detail_lines(const Pair& looks, Size size);
  [[nodiscard]] std::vector<Line> heading(const Pair& looks) const;
  [[nodiscard]] std::string key_line() const;
  void follow_selection(const Table& table, std::size_t room);

  View view_;
  double interval_;
  Page page_ = Page::table;
  bool typing_ = false;  // the filter
  bool paused_ = false;
  std::string filter_;
  std::string title_;  // of the column to sort by; empty: each table's first
  Order order_ = Order::falling;
  std::vector<std::string> titles_;  // of the columns that were drawn last
  std::string sorted_by_;            // the column that was drawn last
  std::string selected_;             // key
  std::size_t row_ = 0;              // of the selection
  std::size_t top_ = 0;              // the first row that is shown
  std::size_t rows_ = 0;             // that there are
  std::size_t page_size_ = 1;
  std::size_t detail_top_ = 0;
};

}  // namespace verbena::top
