#include "tools/top/pages.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace verbena::top {
namespace {

constexpr double kShortest = 0.1;
constexpr double kLongest = 3600;

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text.resize(width);
  return text;
}

/// Its style may have a background: that goes to the right edge.
std::string filled(std::string text, std::size_t width) {
  text.resize(width, ' ');
  return text;
}

std::string clock_of(const Sample& sample) {
  const std::time_t now = std::chrono::system_clock::to_time_t(sample.wall);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:%H:%M:%S}", local);
}

const std::vector<Line>& help_lines() {
  static const std::vector<Line> lines{
      {"Keys", Style::strong},
      {""},
      {"  1 2 3, Tab      processes, queue pairs, devices"},
      {"  up, down, j, k  select a row; PgUp, PgDn, Home and End, too"},
      {"  Enter           everything about the selected row"},
      {"  < >             sort by the column to the left, to the right"},
      {"  r               reverse the order"},
      {"  /               show only rows that contain a text"},
      {"  + -             look less often, more often"},
      {"  Space           pause"},
      {"  q, Ctrl-C       quit"},
      {""},
      {"SENT/s and RCVD/s are bytes; AGAIN/s are packets that are sent again."},
      {"POSTED, FLIGHT: send requests that aren't complete, and those on their way."},
      {"RECVS: receives that are posted. CQ: completions that wait to be polled."},
  };
  return lines;
}

}  // namespace

// ---- keys

Pages::Outcome Pages::handle(const Key& key) {
  using Kind = Key::Kind;
  if (key.kind == Kind::interrupt) return Outcome::quit;
  if (typing_) {
    handle_filter(key);
    return Outcome::stay;
  }
  if (key == Key{Kind::character, 'q'}) return Outcome::quit;
  if (page_ != Page::table && (key.kind == Kind::escape || key.kind == Kind::left ||
                               key.kind == Kind::enter || key.kind == Kind::backspace)) {
    page_ = Page::table;
    return Outcome::stay;
  }
  const auto page = static_cast<long>(page_size_);
  switch (key.kind) {
    case Kind::up:
      move(-1);
      break;
    case Kind::down:
      move(1);
      break;
    case Kind::page_up:
      move(-page);
      break;
    case Kind::page_down:
      move(page);
      break;
    case Kind::home:
      move(-static_cast<long>(rows_));
      break;
    case Kind::end:
      move(static_cast<long>(rows_));
      break;
    case Kind::enter:
      page_ = Page::details;
      detail_top_ = 0;
      break;
    case Kind::escape:
      filter_.clear();
      break;
    case Kind::tab:
      show(static_cast<View>((static_cast<unsigned>(view_) + 1) % 3));
      break;
    case Kind::left:
      choose_column(-1);
      break;
    case Kind::right:
      choose_column(1);
      break;
    case Kind::character:
      handle_character(key.character);
      break;
    default:
      break;
  }
  return Outcome::stay;
}

void Pages::handle_filter(const Key& key) {
  switch (key.kind) {
    case Key::Kind::character:
      filter_ += key.character;
      break;
    case Key::Kind::backspace:
      if (!filter_.empty()) filter_.pop_back();
      break;
    case Key::Kind::escape:
      filter_.clear();
      typing_ = false;
      break;
    case Key::Kind::enter:
      typing_ = false;
      break;
    default:
      break;
  }
}

void Pages::handle_character(char c) {
  switch (c) {
    case '1':
    case '2':
    case '3':
      show(static_cast<View>(c - '1'));
      break;
    case 'j':
      move(1);
      break;
    case 'k':
      move(-1);
      break;
    case '<':
      choose_column(-1);
      break;
    case '>':
      choose_column(1);
      break;
    case 'r':
      order_ = order_ == Order::rising ? Order::falling : Order::rising;
      break;
    case '/':
      page_ = Page::table;
      typing_ = true;
      break;
    case '+':
      interval_ = std::min(kLongest, interval_ * 2);
      break;
    case '-':
      interval_ = std::max(kShortest, interval_ / 2);
      break;
    case ' ':
      paused_ = !paused_;
      break;
    case 'h':
    case '?':
      page_ = page_ == Page::help ? Page::table : Page::help;
      break;
    default:
      break;
  }
}

void Pages::move(long rows) {
  if (page_ == Page::details) {
    detail_top_ = static_cast<std::size_t>(std::max(0L, static_cast<long>(detail_top_) + rows));
    return;
  }
  const long last = std::max(0L, static_cast<long>(rows_) - 1);
  row_ = static_cast<std::size_t>(std::clamp(static_cast<long>(row_) + rows, 0L, last));
  selected_.clear();  // the next draw() names the row
}

void Pages::choose_column(int step) {
  if (page_ != Page::table || titles_.empty()) return;
  const auto found = std::ranges::find(titles_, sorted_by_);
  const auto count = static_cast<int>(titles_.size());
  const auto now = static_cast<int>(found - titles_.begin()) % count;
  title_ = sorted_by_ = titles_[static_cast<std::size_t>((now + step + count) % count)];
}

void Pages::show(View view) {
  page_ = Page::table;
  if (view == view_) return;
  view_ = view;
  selected_.clear();
  row_ = top_ = 0;
}

// ---- lines

std::vector<Line> Pages::heading(const Pair& looks) const {
  const auto name = [&](View view, const char* text) {
    return view == view_ ? fmt::format("[{}]", text) : fmt::format(" {} ", text);
  };
  return {
      {fmt::format("verbena top  {}  {}  every {:g} s", clock_of(looks.now),
                   paused_ ? "paused" : "live", interval_),
       Style::strong},
      {count_line(looks.now)},
      {sum_line(looks)},
      {fmt::format("{}{}{}", name(View::processes, "1 processes"),
                   name(View::queue_pairs, "2 queue pairs"), name(View::devices, "3 devices"))}};
}

Table Pages::sorted_table(const Pair& looks) {
  Table table = table_of(view_, looks);
  if (!filter_.empty()) filter(table, filter_);
  std::size_t column = column_named(table, title_);
  if (column == table.columns.size()) column = first_column(table);
  sorted_by_ = table.columns[column].title;
  sort(table, column, order_);
  return table;
}

void Pages::follow_selection(const Table& table, std::size_t room) {
  rows_ = table.rows.size();
  page_size_ = std::max<std::size_t>(1, room);
  const auto found = std::ranges::find(table.rows, selected_, &Row::key);
  if (!selected_.empty() && found != table.rows.end()) {
    row_ = static_cast<std::size_t>(found - table.rows.begin());
  }
  row_ = rows_ == 0 ? 0 : std::min(row_, rows_ - 1);
  // A row that is gone stays selected while its details are shown.
  if (page_ == Page::table || selected_.empty()) {
    selected_ = rows_ == 0 ? "" : table.rows[row_].key;
  }
  if (row_ < top_) top_ = row_;
  if (row_ >= top_ + page_size_) top_ = row_ + 1 - page_size_;
  if (top_ + page_size_ > rows_) top_ = rows_ > page_size_ ? rows_ - page_size_ : 0;
}

std::vector<Line> Pages::table_lines(const Pair& looks, Size size) {
  const Table table = sorted_table(looks);
  const std::size_t room = size.lines > 1 ? size.lines - 1 : 0;
  follow_selection(table, room);
  const Layout layout = layout_of(table, size.columns);
  titles_.clear();
  for (const std::size_t column : layout.columns) {
    titles_.emplace_back(table.columns[column].title);
  }
  std::vector<Line> lines{{filled(head_line(table, layout), size.columns), Style::head}};
  for (std::size_t i = top_; i < std::min(rows_, top_ + room); ++i) {
    const Row& row = table.rows[i];
    const Style style = i == row_ ? Style::selected : row.alarming ? Style::alarming : Style::plain;
    lines.push_back({filled(line(table, layout, row), size.columns), style});
  }
  if (table.rows.empty()) {
    lines.push_back({filter_.empty() ? "nothing uses a device in this network namespace"
                                     : fmt::format("no row contains \"{}\"", filter_)});
  }
  return lines;
}

std::vector<Line> Pages::detail_lines(const Pair& looks, Size size) {
  follow_selection(sorted_table(looks), size.lines);
  const Details details = details_of(view_, selected_, looks);
  if (details.title.empty()) return {{"It is gone, or has no details. Esc goes back."}};
  std::vector<Line> all{{details.title, Style::strong}};
  for (const auto& [name, value] : details.facts) {
    all.push_back({fmt::format("{:<16}{}", name, value)});
  }
  const Layout layout = layout_of(details.counters, size.columns);
  all.push_back({filled(head_line(details.counters, layout), size.columns), Style::head});
  for (const Row& row : details.counters.rows) {
    all.push_back({line(details.counters, layout, row)});
  }
  const std::size_t last = all.size() > size.lines ? all.size() - size.lines : 0;
  detail_top_ = std::min(detail_top_, last);
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(detail_top_));
  return all;
}

std::string Pages::key_line() const {
  if (typing_) return fmt::format("Filter: {}_   Enter keeps it, Esc removes it", filter_);
  if (page_ == Page::details) return "Esc back  up/down scroll  Space pause  q quit";
  if (page_ == Page::help) return "Esc back  q quit";
  const std::string order = order_ == Order::falling ? "down" : "up";
  const std::string filter = filter_.empty() ? "" : fmt::format("={}", filter_);
  return fmt::format("q quit  Tab view  Enter details  <> {} {}  r reverse  / filter{}  ? help",
                     sorted_by_, order, filter);
}

std::vector<Line> Pages::draw(const Pair& looks, Size size) {
  std::vector<Line> lines = heading(looks);
  if (size.lines < lines.size() + 3) lines.clear();  // the table matters more
  const std::size_t above = lines.size();
  const Size rest{size.columns, size.lines > above + 1 ? size.lines - above - 1 : 1};
  const auto body = page_ == Page::help      ? help_lines()
                    : page_ == Page::details ? detail_lines(looks, rest)
                                             : table_lines(looks, rest);
  lines.insert(lines.end(), body.begin(), body.end());
  lines.resize(size.lines > 0 ? size.lines - 1 : 0);
  lines.push_back({filled(key_line(), size.columns), Style::keys});
  for (Line& line : lines) line.text = cut(std::move(line.text), size.columns);
  return lines;
}

}  // namespace verbena::top
