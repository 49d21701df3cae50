#include "tools/report/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/report/filter.h"
#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

std::string wr_text(const Event& e) { return e.note.empty() ? "" : " wr_id " + id_text(e.note); }

/// What became of a packet that didn't arrive well.
std::string end_of(const Event& e) {
  if (e.flags.lost) return e.note.empty() ? "lost" : fmt::format("lost ({})", e.note);
  if (e.flags.ignored) return "ignored";
  if (e.flags.dropped) return "dropped: " + drop_word(e.note);
  if (e.flags.not_taken) return "not taken";
  if (e.flags.duplicate) return "a duplicate";
  return "";
}

Row packet_row(const Event& e) {
  Row row{.mark = Row::Mark::arrow, .side = e.side, .time = e.time, .end = end_of(e)};
  row.lost = e.flags.lost;
  row.again = e.flags.again;
  row.connection = e.flags.connection;
  row.answer = e.flags.response;
  row.refusal = e.flags.nak || e.flags.rnr;
  if (e.flags.connection) {
    row.text = "CM " + e.what;
  } else {
    row.text = fmt::format("{}, PSN {}", e.what, e.psn);
    if (e.bytes > 0) row.text += ", " + bytes_text(e.bytes);
  }
  if (e.flags.again) row.text += ", again";
  if (!e.flags.lost && e.note.starts_with("--faults")) row.text += fmt::format(" ({})", e.note);
  row.likeness = fmt::format("{}/{}/{}/{}/{}", e.what, static_cast<int>(e.side), row.end,
                             e.flags.again, e.bytes);
  return row;
}

Row row_of(const Event& e) {
  if (e.kind == EventKind::packet) return packet_row(e);
  Row row{.side = e.side, .time = e.time};
  switch (e.kind) {
    case EventKind::packet:
      break;
    case EventKind::post_send:
      row.mark = Row::Mark::post_send;
      row.text = fmt::format("post {}{}, {}", e.what, wr_text(e), bytes_text(e.bytes));
      break;
    case EventKind::post_receive:
      row.mark = Row::Mark::post_receive;
      row.text = fmt::format("post RECV{}, {}", wr_text(e), bytes_text(e.bytes));
      break;
    case EventKind::completion:
      row.mark = e.what == "SUCCESS" ? Row::Mark::done : Row::Mark::failed;
      row.text = fmt::format("{} completed{}: {}", e.receive ? "RECV" : "send", wr_text(e), e.what);
      break;
    case EventKind::retry:
      row.mark = Row::Mark::retry;
      row.text = fmt::format("{}: again from PSN {}", retry_text(e.what), e.psn);
      break;
    case EventKind::state:
      row.mark = Row::Mark::state;
      row.text = e.what;
      break;
  }
  row.likeness = fmt::format("{}/{}/{}/{}/{}", static_cast<int>(row.mark), static_cast<int>(e.side),
                             e.what, e.bytes, e.receive);
  return row;
}

/// How often the block of `size` rows at `at` stands there, one behind the other.
std::size_t times_at(const std::vector<Row>& rows, std::size_t at, std::size_t size) {
  std::size_t times = 1;
  for (std::size_t next = at + size; next + size <= rows.size(); next += size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (rows[next + i].likeness != rows[at + i].likeness) return times;
    }
    ++times;
  }
  return times;
}

Row folded_row(const std::vector<Row>& rows, std::size_t at, std::size_t size, std::size_t times) {
  const Row& first = rows[at];
  Row row{.mark = Row::Mark::folded, .side = first.side, .time = rows[at + size].time};
  row.text = size == 1 ? fmt::format("{} more like this", times - 1)
                       : fmt::format("these {} lines {} times more", size, times - 1);
  return row;
}

/// Whatever repeats itself at once, a row or up to twelve of them, stands there once.
std::vector<Row> folded(const std::vector<Row>& rows) {
  constexpr std::size_t kLongest = 12, kFew = 3;
  std::vector<Row> result;
  for (std::size_t at = 0; at < rows.size();) {
    std::size_t best = 0, best_times = 1;
    for (std::size_t size = 1; size <= kLongest; ++size) {
      const std::size_t times = times_at(rows, at, size);
      if (times < kFew || times * size <= best_times * best) continue;
      best = size;
      best_times = times;
    }
    if (best == 0) {
      result.push_back(rows[at++]);
      continue;
    }
    result.insert(result.end(), rows.begin() + static_cast<std::ptrdiff_t>(at),
                  rows.begin() + static_cast<std::ptrdiff_t>(at + best));
    result.push_back(folded_row(rows, at, best, best_times));
    at += best * best_times;
  }
  return result;
}

}  // namespace

std::vector<Row> rows_of(const Model& model, std::uint32_t conversation,
                         const RowOptions& options) {
  std::vector<Row> rows;
  for (const Event& e : model.events) {
    if (e.conversation != conversation) continue;
    if (e.kind == EventKind::state && !options.states && !is_error(e)) continue;
    rows.push_back(row_of(e));
    rows.back().text = printable(rows.back().text);
    rows.back().end = printable(rows.back().end);
  }
  if (options.fold) rows = folded(rows);
  if (options.most != 0 && rows.size() > options.most) {
    Row rest{.mark = Row::Mark::folded, .time = rows[options.most].time};
    rest.text = count_text(rows.size() - options.most, "line") + " more";
    rows.resize(options.most);
    if (options.rest) rows.push_back(std::move(rest));
  }
  return rows;
}

}  // namespace verbena::report
