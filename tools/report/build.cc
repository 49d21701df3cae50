#include "tools/report/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "tools/report/capture_reader.h"
#include "tools/report/conversations.h"
#include "tools/report/packet_headers.h"
#include "tools/report/packets.h"
#include "tools/report/requests.h"
#include "tools/report/trace_reader.h"

namespace verbena::report {
namespace {

std::string beginning_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw std::runtime_error{fmt::format("{}: this is a folder; name the files in it", path)};
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw std::runtime_error{
        fmt::format("{}: a report reads files twice; write this into one first", path)};
  }
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{fmt::format("{}: {}", path, std::strerror(errno))};
  constexpr std::size_t kEnough = 4096;
  std::string text(kEnough, '\0');
  file.read(text.data(), kEnough);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

bool has_packet_only(Seen kind) {
  return kind == Seen::sent || kind == Seen::received || kind == Seen::passing ||
         kind == Seen::dropped || kind == Seen::fault;
}

/// Posts, completions and the like: events of one end.
std::vector<Event> events_of_ends(const Observations& seen, const Conversations& of,
                                  const std::vector<Time>& times) {
  std::vector<Event> events;
  for (std::size_t i = 0; i < seen.all.size(); ++i) {
    const Observation& o = seen.all[i];
    if (has_packet_only(o.kind) || of.of[i].conversation == kNone) continue;
    Event e;
    e.side = of.of[i].side;
    e.conversation = of.of[i].conversation;
    e.time = times[i];
    e.bytes = static_cast<std::uint32_t>(o.request_bytes);
    e.psn = o.psn;
    e.note = o.wr_id;
    switch (o.kind) {
      case Seen::post_send:
        e.kind = EventKind::post_send;
        e.what = o.op;
        e.signaled = o.signaled;
        break;
      case Seen::post_receive:
        e.kind = EventKind::post_receive;
        e.what = "RECV";
        break;
      case Seen::completion:
        e.kind = EventKind::completion;
        e.what = o.status;
        e.receive = o.op.starts_with("RECV");
        break;
      case Seen::retry:
        e.kind = EventKind::retry;
        e.what = o.word;
        break;
      case Seen::state:
        e.kind = EventKind::state;
        e.what = o.from.empty() ? std::string{o.to} : fmt::format("{} → {}", o.from, o.to);
        break;
      case Seen::sent:
      case Seen::received:
      case Seen::passing:
      case Seen::dropped:
      case Seen::fault:
        break;
    }
    events.push_back(std::move(e));
  }
  return events;
}

/// A queue pair whose connection is over may be in a conversation with nobody: those without a
/// packet and without a post are left out.
void leave_out_silent(Model& model) {
  std::vector<bool> speaks(model.conversations.size());
  for (const Event& e : model.events) {
    if (e.kind != EventKind::state) speaks[e.conversation] = true;
  }
  std::vector<std::uint32_t> numbers(speaks.size(), kNone);
  std::vector<Conversation> kept;
  for (std::size_t i = 0; i < speaks.size(); ++i) {
    if (!speaks[i]) continue;
    numbers[i] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(model.conversations[i]));
  }
  model.conversations = std::move(kept);
  std::erase_if(model.events, [&](const Event& e) { return numbers[e.conversation] == kNone; });
  for (Event& e : model.events) e.conversation = numbers[e.conversation];
}

void add_sources(const Observations& seen, const std::vector<Clock>& clocks, Model& model) {
  for (const std::string& file : seen.files) model.sources.push_back({.file = file, .host = ""});
  for (std::size_t i = seen.observers.size(); i-- > 0;) {
    const Observer& o = seen.observers[i];
    Source& source = model.sources[o.source];
    source.host = o.host;
    source.offset = clocks[i].offset;
    source.shifted = clocks[i].compared && clocks[i].offset != 0;
  }
}

}  // namespace

void name_orderly_ends(Model& model) {
  std::vector<bool> disconnects(model.conversations.size());
  std::set<std::pair<std::uint32_t, Side>> failed;
  for (const Event& e : model.events) {
    if (e.what == "DisconnectRequest") disconnects[e.conversation] = true;
    const bool fails =
        e.kind == EventKind::completion && e.what != "SUCCESS" && e.what != "WR_FLUSH_ERR";
    if (fails || (e.flags.nak && !is_sequence_error(e))) failed.insert({e.conversation, e.side});
  }
  // rdma_disconnect() moves the queue pair to ERR before it sends the message.
  for (Event& e : model.events) {
    if (!disconnects[e.conversation] || failed.contains({e.conversation, e.side})) continue;
    const bool ends = e.kind == EventKind::state && e.what.ends_with("→ ERR");
    if (ends) e.what += ", disconnected";
  }
}

Observations read_files(const std::vector<std::string>& paths) {
  Observations seen;
  for (const std::string& path : paths) {
    const std::string beginning = beginning_of(path);
    if (beginning.empty()) {
      throw std::runtime_error{fmt::format(
          "{}: the file is empty: the program opened no device, or it still runs", path)};
    }
    if (looks_like_trace(beginning)) {
      read_trace(path, seen);
    } else if (looks_like_capture(beginning)) {
      read_capture(path, seen);
    } else {
      throw std::runtime_error{
          fmt::format("{}: neither a trace (--trace FILE) nor a capture (pcapng or pcap)", path)};
    }
  }
  return seen;
}

Model build_model(const Observations& seen) {
  if (seen.all.empty()) {
    throw std::runtime_error{fmt::format("{}: no event and no RoCEv2 packet in it",
                                         seen.files.empty() ? "no file" : seen.files.front())};
  }
  const Conversations of = find_conversations(seen);
  const std::vector<Clock> clocks = compare_clocks(seen, of);
  std::vector<Time> times;
  times.reserve(seen.all.size());
  for (const Observation& o : seen.all) {
    times.push_back(sum_of(o.time, clocks[o.observer].offset));
  }
  const Time first = *std::ranges::min_element(times);
  for (Time& time : times) time = difference_of(time, first);

  Model model;
  model.conversations = of.all;
  model.remarks = seen.remarks;
  model.wall = sum_of(seen.observers.front().wall, first);
  model.events = join_packets(seen, of, times);
  std::ranges::move(events_of_ends(seen, of, times), std::back_inserter(model.events));
  std::ranges::stable_sort(model.events, {}, &Event::time);
  leave_out_silent(model);
  name_orderly_ends(model);
  model.requests = find_requests(model.conversations, model.events);
  add_sources(seen, clocks, model);
  return model;
}

}  // namespace verbena::report
