#include "host/observation/statistics.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <span>

#include "host/observation/json.h"
#include "host/observation/way_names.h"
#include "host/wires.h"

namespace verbena::host {
namespace {

using Value = Statistics::Value;

constexpr std::string_view kPrefix = "vb_";  // of a device, before its interface's name

constexpr std::size_t kMaxColumns = 6;  // queue pairs in the table for people

std::size_t shown_of(const Statistics& s) { return std::min(s.pairs.size(), kMaxColumns); }

std::string interface_name(unsigned index) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(index, name.data()) != nullptr ? name.data() : "";
}

/// Times that the interface lost its carrier; nothing if it doesn't say.
constexpr std::string_view kLinkDowned = "link_downed";  // counted by the interface

void add_link_downed(std::vector<Value>& to, const std::string& interface) {
  std::uint64_t count = 0;
  std::ifstream file{"/sys/class/net/" + interface + "/carrier_down_count"};
  if (file >> count) to.emplace_back(kLinkDowned, count);
}

Statistics::Port& port_named(Statistics& s, const std::string& device) {
  const auto found = std::ranges::find(s.ports, device, &Statistics::Port::device);
  return found != s.ports.end() ? *found : s.ports.emplace_back(Statistics::Port{.device = device});
}

/// IBA 16.1.3.5: data is counted in words of four bytes, and among the errors of what was received
/// is what found no room.
std::vector<Value> traffic_of(const wire::PortTraffic& p, const std::string& interface) {
  std::vector<Value> values{
      {"port_xmit_packets", p.sent_packets},    {"port_xmit_data", p.sent_bytes / 4},
      {"port_rcv_packets", p.received_packets}, {"port_rcv_data", p.received_bytes / 4},
      {"port_rcv_errors", p.receive_errors},    {"port_xmit_discards", p.send_errors}};
  add_link_downed(values, interface);
  return values;
}

// ---- the table

/// A column of the table: a port or a queue pair.
struct Column {
  std::string title;
  std::vector<Value> values;
};

std::vector<Value> values_of(const engine::Counters& counters) {
  std::vector<Value> values;
  for (const auto& c : engine::kCounters) values.emplace_back(c.name, counters.*c.value);
  return values;
}

std::vector<Column> columns_of(const Statistics& s) {
  std::vector<Column> columns;
  for (const Statistics::Port& port : s.ports) {
    Column& column = columns.emplace_back(Column{port.device + "/1", port.traffic});
    std::ranges::copy(values_of(port.counters), std::back_inserter(column.values));
  }
  for (const Statistics::Pair& pair : std::span{s.pairs}.first(shown_of(s))) {
    columns.push_back({fmt::format("{:#08x}", pair.qpn.value()), values_of(pair.counters)});
  }
  return columns;
}

/// Of the names in any column, in their order.
std::vector<std::string_view> names_in(const std::vector<Column>& columns) {
  std::vector<std::string_view> names;
  for (const Column& column : columns) {
    for (const auto& [name, value] : column.values) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string row_of(std::string_view name, const std::vector<Column>& columns) {
  std::string row = fmt::format("  {:<24}", name);
  bool counted = false;
  for (const Column& column : columns) {
    const auto found = std::ranges::find(column.values, name, &Value::first);
    const bool known = found != column.values.end();
    counted = counted || (known && found->second != 0);
    row += fmt::format("{:>12}", known ? std::to_string(found->second) : "");
  }
  return counted ? row + "\n" : "";
}

std::string description_of(const Statistics::Pair& pair) {
  std::string line = fmt::format("  qp {:#08x}: {}", pair.qpn.value(), name_of(pair.type));
  if (!pair.device.empty()) line += fmt::format(" on {}/1", pair.device);
  if (pair.peer != IpAddress{}) {
    line += fmt::format(", peer {} qp {:#08x}", pair.peer.text(), pair.peer_qpn.value());
  }
  if (pair.course) {
    line += fmt::format(", by {}", name_of(pair.course->way));
    const std::string_view why = text_of(pair.course->detour);
    if (!why.empty()) line += fmt::format(": {}", why);
  }
  return line + "\n";
}

std::string table_of(const Statistics& s) {
  const auto columns = columns_of(s);
  std::string out;
  for (const Statistics::Pair& pair : std::span{s.pairs}.first(shown_of(s))) {
    out += description_of(pair);
  }
  out += fmt::format("  {:<24}", "");
  for (const Column& column : columns) out += fmt::format("{:>12}", column.title);
  out += "\n";
  for (const auto name : names_in(columns)) out += row_of(name, columns);
  return out;
}

/// "name value, …", without zeros.
std::string line_of(std::string_view title, const std::vector<Value>& values) {
  std::string line;
  for (const auto& [name, value] : values) {
    if (value != 0) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", name, value);
  }
  return line.empty() ? line : fmt::format("{}: {}\n", title, line);
}

// ---- JSON

std::string object_of(const std::vector<Value>& values) {
  std::string out;
  for (const auto& [name, value] : values) {
    out += fmt::format("{}\"{}\":{}", out.empty() ? "" : ",", name, value);
  }
  return "{" + out + "}";
}

std::string object_of(const engine::Counters& counters) { return object_of(values_of(counters)); }

/// Without zeros: many queue pairs have to fit into a message.
std::string short_object_of(const engine::Counters& counters) {
  auto values = values_of(counters);
  std::erase_if(values, [](const Value& v) { return v.second == 0; });
  return object_of(values);
}

std::string object_of(const Statistics::Port& port) {
  return fmt::format(
      R"({{"device":{},"port":1,"queue_pairs":{},"connections":{{"shm":{},"udp":{}}},)"
      R"("counters":{},"hw_counters":{}}})",
      json_quoted(port.device), port.queue_pairs, port.by_shm, port.by_udp, object_of(port.traffic),
      object_of(port.counters));
}

std::string object_of(const Statistics::Pair& pair) {
  return fmt::format(R"({{"qp":{},"service":"{}","device":{},"peer":{},"peer_qp":{},)"
                     R"("way":"{}","why":"{}",{}"counters":{}}})",
                     pair.qpn.value(), name_of(pair.type), json_quoted(pair.device),
                     json_quoted(pair.peer != IpAddress{} ? pair.peer.text() : ""),
                     pair.peer_qpn.value(), pair.course ? name_of(pair.course->way) : "",
                     pair.course ? name_of(pair.course->detour) : "",
                     pair.activity ? members_of(*pair.activity) : "",
                     pair.activity ? short_object_of(pair.counters) : object_of(pair.counters));
}

/// The way of its requests; of its answers, where it has sent none; else the one that they would
/// take.
std::optional<packet::Course> course_of(const QueuePair& qp, packet::Course expected) {
  if (!qp.connected() || qp.attributes.flow.destination == IpAddress{}) return std::nullopt;
  if (qp.requester.course != packet::Course{}) return qp.requester.course;
  if (!qp.responder.way_known || qp.responder.way == expected.way) return expected;
  const bool host = qp.responder.way == packet::Way::host;
  return packet::Course{qp.responder.way,
                        host ? packet::Detour::none : packet::Detour::peer_declines};
}

template <typename T>
std::string list_of(const std::vector<T>& items) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ",") + object_of(item);
  return "[" + out + "]";
}

}  // namespace

Statistics::Pair pair_of(const QueuePair& qp, packet::Course expected) {
  const bool connected = qp.connected();
  return {.number = qp.number,
          .qpn = qp.qpn,
          .type = qp.type,
          .device = qp.device,
          .peer = connected ? qp.attributes.flow.destination : IpAddress{},
          .peer_qpn = connected ? qp.attributes.dest_qpn : Qpn{},
          .course = course_of(qp, expected),
          .counters = qp.counters};
}

void PairRecords::add(const std::string& device, const engine::Counters& last) {
  ++count_;
  // One that never had a device has counted nothing.
  if (const auto found = sums_.find(device); found != sums_.end()) found->second += last;
}

engine::Counters PairRecords::sum_of(const std::string& device) const {
  const auto found = sums_.find(device);
  return found != sums_.end() ? found->second : engine::Counters{};
}

void PairRecords::fill(Statistics& s, const std::vector<Statistics::Pair>& live) const {
  for (const auto& [device, counters] : sums_) port_named(s, device).counters += counters;
  for (const Statistics::Pair& pair : live) {
    if (pair.device.empty()) continue;
    Statistics::Port& port = port_named(s, pair.device);
    port.counters += pair.counters;
    ++port.queue_pairs;
    if (pair.course) ++(pair.course->way == packet::Way::host ? port.by_shm : port.by_udp);
  }
  s.pairs = gone_;
  s.pairs.insert(s.pairs.end(), live.begin(), live.end());
  std::ranges::sort(s.pairs, {}, &Statistics::Pair::number);
  s.unlisted = count_ - gone_.size();
}

Statistics::Port& Statistics::Port::operator+=(const Port& other) {
  counters += other.counters;
  for (std::size_t i = 0; i < std::min(traffic.size(), other.traffic.size()); ++i) {
    if (traffic[i].first != kLinkDowned) traffic[i].second += other.traffic[i].second;
  }
  queue_pairs += other.queue_pairs;
  by_shm += other.by_shm;
  by_udp += other.by_udp;
  return *this;
}

Statistics::Port idle_port(const std::string& device, const std::string& interface) {
  return {.device = device, .traffic = traffic_of({}, interface)};
}

void fill_from_wires(Statistics::Port& port, const std::string& interface, const Wires& wires) {
  const unsigned index = if_nametoindex(interface.c_str());
  const auto ports = wires.counters().ports;
  const auto found = std::ranges::find(ports, index, &wire::PortTraffic::interface);
  port.traffic = traffic_of(found != ports.end() ? *found : wire::PortTraffic{}, interface);
}

void fill_from_wires(Statistics& s, const Wires& wires) {
  const wire::WireCounters w = wires.counters();
  for (const wire::PortTraffic& p : w.ports) {
    const std::string interface = interface_name(p.interface);
    if (interface.empty()) continue;  // it is gone
    port_named(s, fmt::format("{}{}", kPrefix, interface)).traffic = traffic_of(p, interface);
  }
  for (Statistics::Port& port : s.ports) {
    if (port.traffic.empty()) port.traffic = traffic_of({}, port.device.substr(kPrefix.size()));
  }
  s.wire = {{"frames_sent", w.frames_sent},
            {"frames_received", w.frames_received},
            {"send_errors", w.send_errors},
            {"icrc_errors", w.icrc_errors},
            {"malformed", w.malformed},
            {"socket_drops", w.socket_drops},
            {"handed_over", w.handed_over},
            {"handover_drops", w.handover_drops},
            {"handover_received", w.handover_received},
            {"foreign_probes", w.foreign_probes},
            {"capture_lost", wires.capture() != nullptr ? wires.capture()->lost() : 0}};
  const auto f = wires.fault_counters();
  if (!f) return;
  s.faults = {{"dropped", f->dropped},
              {"duplicated", f->duplicated},
              {"reordered", f->reordered},
              {"corrupted", f->corrupted}};
}

std::string as_table(const Statistics& s) {
  std::string out = fmt::format("verbena: {}, process {}\n", s.program, s.pid);
  if (!s.ports.empty() || !s.pairs.empty()) out += table_of(s);
  if (const auto more = s.pairs.size() - shown_of(s) + s.unlisted; more > 0) {
    out += fmt::format("  and {} more queue pairs; --stats=FILE has up to {}\n", more,
                       PairRecords::kMax);
  }
  return out + line_of("  wire", s.wire) + line_of("  faults", s.faults);
}

std::string as_json(const Statistics& s) {
  return fmt::format(
      R"({{"program":{},"pid":{},"ports":{},"qps":{},"qps_unlisted":{},"wire":{},"faults":{}}})"
      "\n",
      json_quoted(s.program), s.pid, list_of(s.ports), list_of(s.pairs), s.unlisted,
      object_of(s.wire), object_of(s.faults));
}

std::string pairs_as_json(const std::vector<Statistics::Pair>& pairs) {
  return fmt::format(R"({{"qps":{}}})", list_of(pairs));
}

}  // namespace verbena::host
