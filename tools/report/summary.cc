#include "tools/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "tools/report/rows.h"
#include "tools/report/text_width.h"
#include "tools/report/wording.h"

namespace verbena::report {
namespace {

constexpr auto kRow = "{:>11}  {:<8} {:>18} {:<20} {:>9} {:>10} {:>10} {:>10} {:>7}  {}\n";

Time duration(const Request& r) { return r.waiting + r.on_the_wire + r.repeating; }

std::string row_of(const Model& model, const Request& r) {
  const Time begin = r.posted != kNever ? r.posted : r.first_sent;
  const End& end = model.conversations[r.conversation].end(r.side);
  const std::string again = r.packets_again == 0 ? "-" : fmt::format("{}", r.packets_again);
  return fmt::format(
      kRow, fmt::format("{:.3f}", static_cast<double>(begin) / 1e6),
      fmt::format("{:#08x}", end.qpn), r.wr_id.empty() ? "-" : printable(id_text(r.wr_id)),
      printable(r.op), bytes_text(r.bytes), duration_text(r.waiting), duration_text(r.on_the_wire),
      r.repeating == 0 ? "-" : duration_text(r.repeating), again, printable(r.status));
}

std::string table_of(const Model& model, std::size_t most) {
  if (model.requests.empty()) return "";
  std::vector<std::size_t> places(model.requests.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  const bool all = most == 0 || places.size() <= most;
  if (!all) {
    std::ranges::stable_sort(places, std::greater{},
                             [&](std::size_t i) { return duration(model.requests[i]); });
    places.resize(most);
  }
  std::string text =
      all ? count_text(places.size(), "request") + "\n"
          : fmt::format("the slowest {} of {} requests\n", most, model.requests.size());
  text += fmt::format(kRow, "posted, ms", "QP", "wr_id", "operation", "bytes", "waiting",
                      "on the wire", "repeating", "again", "status");
  for (const std::size_t i : places) text += row_of(model, model.requests[i]);
  return text;
}

/// What was sent for nothing, and why.
struct Waste {
  std::uint64_t packets = 0, bytes = 0;
  std::uint64_t again = 0, again_bytes = 0;
  std::uint64_t lost = 0, not_taken = 0, duplicates = 0, rnr = 0, naks = 0;
  std::map<std::string, std::uint64_t> drops;
  std::map<std::string, std::uint64_t> retries;
};

Waste waste_in(const Model& model) {
  Waste w;
  for (const Event& e : model.events) {
    if (e.kind == EventKind::retry) ++w.retries[retry_text(e.what)];
    if (e.kind != EventKind::packet) continue;
    ++w.packets;
    w.bytes += e.bytes;
    if (e.flags.again) {
      ++w.again;
      w.again_bytes += e.bytes;
    }
    w.lost += e.flags.lost ? 1 : 0;
    w.not_taken += e.flags.not_taken ? 1 : 0;
    w.duplicates += e.flags.duplicate ? 1 : 0;
    w.rnr += e.flags.rnr ? 1 : 0;
    w.naks += e.flags.nak ? 1 : 0;
    if (e.flags.dropped) ++w.drops[drop_text(e.note)];
  }
  return w;
}

std::string counted(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, printable(name));
  }
  return text;
}

std::string text_of(const Waste& w, const Model& model) {
  Time repeating = 0;
  for (const Request& r : model.requests) repeating += r.repeating;
  std::string text =
      fmt::format("{} with {} of payload\n", count_text(w.packets, "packet"), bytes_text(w.bytes));
  if (w.again + w.lost + w.duplicates + w.rnr + w.naks + w.drops.size() == 0) {
    return text + "wasted: nothing\n";
  }
  text += fmt::format("wasted: {} sent again ({}), {} lost, {} not taken, {}\n",
                      count_text(w.again, "packet"), bytes_text(w.again_bytes), w.lost, w.not_taken,
                      count_text(w.duplicates, "duplicate"));
  if (w.rnr + w.naks > 0) text += fmt::format("refused: {} RNR NAK, {} other NAK\n", w.rnr, w.naks);
  if (!w.drops.empty()) text += fmt::format("dropped: {}\n", counted(w.drops));
  if (!w.retries.empty()) text += fmt::format("retries: {}\n", counted(w.retries));
  if (repeating > 0)
    text += fmt::format("time spent on repetition: {}\n", duration_text(repeating));
  return text;
}

}  // namespace

std::string summary(const Model& model, std::size_t most) {
  std::string text = table_of(model, most);
  if (!text.empty()) text += "\n";
  return text + totals(model);
}

std::string totals(const Model& model) { return text_of(waste_in(model), model); }

}  // namespace verbena::report
