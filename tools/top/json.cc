#include "tools/top/json.h"

#include <nlohmann/json.hpp>

namespace verbena::top {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;

json optional_of(std::optional<double> value) { return value ? json(*value) : json(nullptr); }

json object_of(const std::optional<Rates>& rates) {
  if (!rates) return nullptr;
  return {{"sent_bytes", optional_of(rates->sent_bytes)},
          {"received_bytes", optional_of(rates->received_bytes)},
          {"sent_packets", optional_of(rates->sent_packets)},
          {"received_packets", optional_of(rates->received_packets)},
          {"requests", optional_of(rates->requests)},
          {"receives", optional_of(rates->receives)},
          {"retransmissions", optional_of(rates->retransmissions)},
          {"rnr", optional_of(rates->rnr)}};
}

json object_of(const std::optional<Queue>& cq) {
  if (!cq) return nullptr;
  return {{"entries", cq->entries}, {"waiting", cq->waiting}};
}

json object_of(const Port& port, const std::optional<Rates>& rates) {
  return {{"device", port.device},
          {"port", port.number},
          {"counters", port.counters},
          {"hw_counters", port.hardware},
          {"rates", object_of(rates)}};
}

json object_of(const QueuePair& pair, const std::optional<Rates>& rates) {
  return {{"qp", pair.number},
          {"service", pair.service},
          {"state", pair.state},
          {"device", pair.device},
          {"peer", pair.peer},
          {"peer_qp", pair.peer_number},
          {"way", pair.way},
          {"why", pair.why},
          {"send_queue",
           {{"entries", pair.send.entries},
            {"posted", pair.send.waiting},
            {"in_flight", pair.in_flight},
            {"completed", pair.completed}}},
          {"receive_queue",
           {{"entries", pair.receive.entries},
            {"posted", pair.receive.waiting},
            {"shared", pair.shared_receive}}},
          {"send_cq", object_of(pair.send_completions)},
          {"receive_cq", object_of(pair.receive_completions)},
          {"counters", pair.counters},
          {"rates", object_of(rates)}};
}

json object_of(const Pair& looks, const Process& process) {
  json object{{"pid", process.pid}, {"program", process.program}, {"answers", process.answers}};
  if (!process.answers) {
    object["stopped"] = process.stopped;
    return object;
  }
  const Process* const before = before_of(looks, process);
  json ports = json::array();
  for (const Port& port : process.ports) {
    json& entry = ports.emplace_back(object_of(port, rates_of(looks, process, port)));
    entry["queue_pairs"] = port.queue_pairs;
    entry["connections"] = {{"shm", port.by_shm}, {"udp", port.by_udp}};
  }
  json pairs = json::array();
  for (const QueuePair& pair : process.queue_pairs) {
    pairs.push_back(object_of(pair, rates_of(before_of(before, pair), pair, looks.seconds())));
  }
  object["ports"] = std::move(ports);
  object["queue_pairs"] = std::move(pairs);
  object["queue_pairs_unlisted"] = process.unlisted;
  return object;
}

}  // namespace

json as_json(const Pair& looks) {
  json processes = json::array();
  for (const Process& process : looks.now.processes) processes.push_back(object_of(looks, process));
  json kernel = json::array();
  for (const Port& port : looks.now.kernel_ports) {
    kernel.push_back(
        object_of(port, rates_of(kernel_port_before(looks, port), port, looks.seconds())));
  }
  const auto time = std::chrono::duration<double>(looks.now.wall.time_since_epoch()).count();
  return {{"schema", kSchema},
          {"time", time},
          {"interval", looks.seconds()},
          {"processes", std::move(processes)},
          {"kernel_ports", std::move(kernel)}};
}

}  // namespace verbena::top
