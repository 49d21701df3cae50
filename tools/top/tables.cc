#include "tools/top/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

namespace verbena::top {
namespace {

constexpr double kUnknown = -1;  // below all others

Cell text(std::string value) { return {std::move(value)}; }
Cell count(std::uint64_t value) { return {std::to_string(value), static_cast<double>(value)}; }
Cell rate(const std::optional<Rates>& rates, std::optional<double> Rates::*field) {
  const auto value = rates ? *rates.*field : std::nullopt;
  return value ? Cell{brief(*value), *value} : Cell{"-", kUnknown};
}

std::string pid_text(const Process& process) {
  return process.pid == 0 ? "?" : std::to_string(process.pid);
}
Cell pid(const Process& process) { return {pid_text(process), static_cast<double>(process.pid)}; }

/// The sum of the error counters of a port, as `verbena stat` has it.
std::uint64_t errors_of(const Port& port) {
  return value_of(port.counters, "port_rcv_errors") +
         value_of(port.counters, "port_xmit_discards") + value_of(port.hardware, "send_err") +
         value_of(port.hardware, "cq_overruns");
}

std::string peer_text(const QueuePair& pair) {
  return pair.peer.empty() ? "-" : fmt::format("{} {:#08x}", pair.peer, pair.peer_number);
}

void add_rates(Row& row, const std::optional<Rates>& rates) {
  for (const auto field :
       {&Rates::sent_bytes, &Rates::received_bytes, &Rates::sent_packets, &Rates::received_packets,
        &Rates::requests, &Rates::retransmissions, &Rates::rnr}) {
    row.cells.push_back(rate(rates, field));
  }
}

// ---- processes

std::string silence_of(const Process& process) { return process.stopped ? "stopped" : "no answer"; }

/// For a process without ports, or one that doesn't answer.
Row bare_row(const Process& process) {
  Row row{
      .key = fmt::format("{} -", process.pid),
      .cells = {pid(process), text(printable(process.program)),
                text(process.answers ? "-" : silence_of(process)), count(0), count(0), count(0)},
      .alarming = !process.answers};
  add_rates(row, std::nullopt);
  row.cells.push_back(count(0));
  return row;
}

Table process_table(const Pair& looks) {
  Table table{.columns = {{"PID", true, 0},
                          {"PROGRAM", false, 0},
                          {"DEVICE", false, 1},
                          {"QPS", true, 2},
                          {"SHM", true, 6},
                          {"UDP", true, 6},
                          {"SENT/s", true, 1},
                          {"RCVD/s", true, 1},
                          {"SENT PKT/s", true, 5},
                          {"RCVD PKT/s", true, 5},
                          {"REQ/s", true, 3},
                          {"AGAIN/s", true, 3},
                          {"RNR/s", true, 4},
                          {"ERRORS", true, 4}},
              .rows = {}};
  for (const Process& process : looks.now.processes) {
    if (process.ports.empty()) table.rows.push_back(bare_row(process));
    for (const Port& port : process.ports) {
      Row row{
          .key = key_of(process, port),
          .cells = {pid(process), text(printable(process.program)), text(printable(port.device)),
                    count(port.queue_pairs), count(port.by_shm), count(port.by_udp)}};
      add_rates(row, rates_of(looks, process, port));
      row.cells.push_back(count(errors_of(port)));
      row.alarming = errors_of(port) > 0;
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

// ---- queue pairs

Cell waiting(const std::optional<Queue>& a, const std::optional<Queue>& b) {
  if (!a && !b) return {"-", kUnknown};
  return count((a ? a->waiting : 0) + (b ? b->waiting : 0));
}

Row row_of(const Pair& looks, const Process& process, const QueuePair& pair) {
  const auto rates = rates_of(before_of(before_of(looks, process), pair), pair, looks.seconds());
  Row row{.key = key_of(process, pair),
          .cells = {pid(process), text(printable(process.program)),
                    text(pair.device.empty() ? "-" : printable(pair.device)),
                    text(fmt::format("{:#08x}", pair.number)), text(pair.service), text(pair.state),
                    text(pair.way.empty() ? "-" : pair.way), text(peer_text(pair))},
          .alarming = pair.state == "ERR" || pair.state == "SQE"};
  add_rates(row, rates);
  row.cells.push_back(rate(rates, &Rates::receives));
  row.cells.push_back(count(pair.send.waiting));
  row.cells.push_back(count(pair.in_flight));
  row.cells.push_back(count(pair.receive.waiting));
  row.cells.push_back(waiting(pair.send_completions, pair.receive_completions));
  return row;
}

Table queue_pair_table(const Pair& looks) {
  Table table{.columns = {{"PID", true, 0},    {"PROGRAM", false, 2},   {"DEVICE", false, 8},
                          {"QP", false, 0},    {"TYPE", false, 5},      {"STATE", false, 1},
                          {"WAY", false, 1},   {"PEER", false, 6},      {"SENT/s", true, 1},
                          {"RCVD/s", true, 1}, {"SENT PKT/s", true, 9}, {"RCVD PKT/s", true, 9},
                          {"REQ/s", true, 3},  {"AGAIN/s", true, 3},    {"RNR/s", true, 4},
                          {"RECV/s", true, 7}, {"POSTED", true, 5},     {"FLIGHT", true, 3},
                          {"RECVS", true, 7},  {"CQ", true, 4}},
              .rows = {}};
  for (const Process& process : looks.now.processes) {
    for (const QueuePair& pair : process.queue_pairs) {
      table.rows.push_back(row_of(looks, process, pair));
    }
  }
  return table;
}

// ---- devices

void add(Counters& sum, const Counters& more) {
  for (const auto& [name, value] : more) {
    auto& counter = sum[name];
    // The interface's own, the same for each process.
    counter = name == "link_downed" ? value : counter + value;
  }
}

/// Of a device of ours: the sum over processes.
std::optional<Rates> rates_of_all(const Pair& looks, const std::string& device) {
  std::optional<Rates> sum;
  for (const Process& process : looks.now.processes) {
    for (const Port& port : process.ports) {
      if (key_of(port) != device) continue;
      const auto rates = rates_of(looks, process, port);
      if (rates) sum ? * sum += *rates : sum.emplace(*rates);
    }
  }
  return sum;
}

std::size_t users_of(const Sample& now, const std::string& device) {
  return static_cast<std::size_t>(std::ranges::count_if(now.processes, [&](const Process& p) {
    return std::ranges::any_of(p.ports, [&](const Port& port) { return key_of(port) == device; });
  }));
}

Row device_row(const Port& port, const char* kind, Cell processes, Cell pairs,
               const std::optional<Rates>& rates) {
  Row row{.key = key_of(port),
          .cells = {text(printable(port.device)), count(port.number), text(kind),
                    std::move(processes), std::move(pairs)}};
  add_rates(row, rates);
  row.cells.push_back(count(errors_of(port)));
  row.alarming = errors_of(port) > 0;
  return row;
}

Table device_table(const Pair& looks) {
  Table table{.columns = {{"DEVICE", false, 0},
                          {"PORT", true, 4},
                          {"KIND", false, 2},
                          {"PROCESSES", true, 4},
                          {"QPS", true, 2},
                          {"SENT/s", true, 1},
                          {"RCVD/s", true, 1},
                          {"SENT PKT/s", true, 5},
                          {"RCVD PKT/s", true, 5},
                          {"REQ/s", true, 3},
                          {"AGAIN/s", true, 3},
                          {"RNR/s", true, 4},
                          {"ERRORS", true, 4}},
              .rows = {}};
  for (const auto& [key, port] : our_ports(looks.now)) {
    table.rows.push_back(device_row(port, "verbena", count(users_of(looks.now, key)),
                                    count(port.queue_pairs), rates_of_all(looks, key)));
  }
  const Cell unknown{"-", kUnknown};
  for (const Port& port : looks.now.kernel_ports) {
    const auto rates = rates_of(kernel_port_before(looks, port), port, looks.seconds());
    table.rows.push_back(device_row(port, "kernel", unknown, unknown, rates));
  }
  return table;
}

}  // namespace

std::string key_of(const Process& process, const QueuePair& pair) {
  return fmt::format("{} {}", process.pid, pair.number);
}
std::string key_of(const Process& process, const Port& port) {
  return fmt::format("{} {}", process.pid, port.device);
}
std::string key_of(const Port& port) { return fmt::format("{}/{}", port.device, port.number); }

std::map<std::string, Port> our_ports(const Sample& sample) {
  std::map<std::string, Port> ports;
  for (const Process& process : sample.processes) {
    for (const Port& port : process.ports) {
      Port& sum = ports.try_emplace(key_of(port), Port{port.device, port.number}).first->second;
      sum.queue_pairs += port.queue_pairs;
      sum.by_shm += port.by_shm;
      sum.by_udp += port.by_udp;
      add(sum.counters, port.counters);
      add(sum.hardware, port.hardware);
    }
  }
  return ports;
}

Table table_of(View view, const Pair& looks) {
  switch (view) {
    case View::processes:
      return process_table(looks);
    case View::queue_pairs:
      return queue_pair_table(looks);
    case View::devices:
      break;
  }
  return device_table(looks);
}

std::size_t column_named(const Table& table, std::string_view title) {
  const auto same = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) ==
           std::toupper(static_cast<unsigned char>(b));
  };
  const auto found = std::ranges::find_if(
      table.columns, [&](const Column& c) { return std::ranges::equal(c.title, title, same); });
  return static_cast<std::size_t>(found - table.columns.begin());
}

std::size_t first_column(const Table& table) { return column_named(table, "SENT/s"); }

std::string count_line(const Sample& now) {
  std::uint64_t pairs = 0, shm = 0, udp = 0;
  for (const Process& process : now.processes) {
    pairs += process.queue_pairs.size() + process.unlisted;
    for (const Port& port : process.ports) {
      shm += port.by_shm;
      udp += port.by_udp;
    }
  }
  return fmt::format("{} processes, {} queue pairs ({} by shm, {} by udp), {} kernel ports",
                     now.processes.size(), pairs, shm, udp, now.kernel_ports.size());
}

std::string sum_line(const Pair& looks) {
  std::optional<Rates> sum;
  for (const auto& [key, port] : our_ports(looks.now)) {
    const auto rates = rates_of_all(looks, key);
    if (rates) sum ? * sum += *rates : sum.emplace(*rates);
  }
  if (looks.now.processes.empty()) {
    return "nothing is sent and received: no process uses a device in this network namespace";
  }
  const auto value = [&](std::optional<double> Rates::*field) { return rate(sum, field).text; };
  return fmt::format("sent {}B/s, received {}B/s, {} requests/s, {} sent again/s, {} RNR/s",
                     value(&Rates::sent_bytes), value(&Rates::received_bytes),
                     value(&Rates::requests), value(&Rates::retransmissions), value(&Rates::rnr));
}

}  // namespace verbena::top
