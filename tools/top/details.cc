// One row in full.

#include <fmt/format.h>

#include <string>

#include "tools/top/tables.h"

namespace verbena::top {
namespace {

void add_counters(Table& table, const Counters* before, const Counters& now, double seconds) {
  for (const auto& [name, value] : now) {
    if (value == 0) continue;
    const auto rate = rate_of(before, now, name, seconds);
    table.rows.push_back({.key = name,
                          .cells = {{printable(name)},
                                    {std::to_string(value), static_cast<double>(value)},
                                    rate ? Cell{brief(*rate), *rate} : Cell{"-", -1}}});
  }
}

Table empty_table() {
  return {.columns = {{"COUNTER", false, 0}, {"TOTAL", true, 0}, {"PER SECOND", true, 1}},
          .rows = {}};
}

std::string text_of(const std::optional<Queue>& cq) {
  return cq ? fmt::format("{} of {} completions wait to be polled", cq->waiting, cq->entries)
            : "none";
}

/// The process that has the peer; empty: it isn't among these.
std::string peer_process(const QueuePair& pair, const Sample& now) {
  if (pair.peer.empty()) return "";
  for (const Process& process : now.processes) {
    for (const QueuePair& other : process.queue_pairs) {
      if (other.number == pair.peer_number && other.peer_number == pair.number) {
        return fmt::format(", process {} ({})", process.pid, printable(process.program));
      }
    }
  }
  return "";
}

Details details_of(const Pair& looks, const Process& process, const QueuePair& pair) {
  const QueuePair* const before = before_of(before_of(looks, process), pair);
  Details details{.title = fmt::format("queue pair {:#08x} of {} (process {})", pair.number,
                                       printable(process.program), process.pid),
                  .facts = {},
                  .counters = empty_table()};
  auto& facts = details.facts;
  facts.emplace_back("service, state", fmt::format("{}, {}", pair.service, pair.state));
  facts.emplace_back("device", pair.device.empty() ? "none yet" : printable(pair.device));
  facts.emplace_back("peer", pair.peer.empty()
                                 ? "none"
                                 : fmt::format("{} qp {:#08x}{}", pair.peer, pair.peer_number,
                                               peer_process(pair, looks.now)));
  facts.emplace_back("way", pair.way.empty()   ? "-"
                            : pair.why.empty() ? pair.way
                                               : fmt::format("{} ({})", pair.way, pair.why));
  facts.emplace_back(
      "send queue",
      fmt::format("{} of {} requests posted, {} in flight, {} completed so far", pair.send.waiting,
                  pair.send.entries, pair.in_flight, pair.completed));
  facts.emplace_back("receive queue",
                     fmt::format("{} of {} receives posted{}", pair.receive.waiting,
                                 pair.receive.entries, pair.shared_receive ? ", shared" : ""));
  facts.emplace_back("send CQ", text_of(pair.send_completions));
  facts.emplace_back("receive CQ", text_of(pair.receive_completions));
  const auto rates = rates_of(before, pair, looks.seconds());
  if (rates) {
    facts.emplace_back("rates", fmt::format("sent {}B/s, received {}B/s, {} requests/s",
                                            brief(rates->sent_bytes.value_or(0)),
                                            brief(rates->received_bytes.value_or(0)),
                                            brief(rates->requests.value_or(0))));
  }
  add_counters(details.counters, before != nullptr ? &before->counters : nullptr, pair.counters,
               looks.seconds());
  return details;
}

Details details_of(const std::string& title, const Port* before, const Port& now, double seconds) {
  Details details{.title = title, .facts = {}, .counters = empty_table()};
  add_counters(details.counters, before != nullptr ? &before->counters : nullptr, now.counters,
               seconds);
  add_counters(details.counters, before != nullptr ? &before->hardware : nullptr, now.hardware,
               seconds);
  return details;
}

}  // namespace

Details details_of(View view, const std::string& key, const Pair& looks) {
  for (const Process& process : looks.now.processes) {
    for (const QueuePair& pair : process.queue_pairs) {
      if (view != View::queue_pairs) break;
      if (key == key_of(process, pair)) return details_of(looks, process, pair);
    }
    for (const Port& port : process.ports) {
      if (view != View::processes) break;
      if (key != key_of(process, port)) continue;
      return details_of(fmt::format("process {} ({}) on {}/{}", process.pid,
                                    printable(process.program), port.device, port.number),
                        before_of(before_of(looks, process), port), port, looks.seconds());
    }
  }
  if (view != View::devices) return {};
  for (const Port& port : looks.now.kernel_ports) {
    if (key != key_of(port)) continue;
    return details_of(
        fmt::format("port {} of {}, a device of the kernel", port.number, printable(port.device)),
        kernel_port_before(looks, port), port, looks.seconds());
  }
  const auto now = our_ports(looks.now);
  const auto found = now.find(key);
  if (found == now.end()) return {};
  const auto before = our_ports(looks.before);
  const auto earlier = before.find(key);
  return details_of(fmt::format("{}, all processes", key),
                    earlier != before.end() ? &earlier->second : nullptr, found->second,
                    looks.seconds());
}

}  // namespace verbena::top
