#include "tools/top/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::top {
namespace {

constexpr std::uint64_t kWord = 4;  // see rates.cc

using Label = std::pair<std::string_view, std::string>;
using Labels = std::vector<Label>;

std::string escaped(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result;
}

/// One name with all its values, which have to stand together.
class Family {
 public:
  Family(std::string name, std::string_view type, std::string_view help)
      : name_{std::move(name)},
        head_{fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type)} {}

  void add(const Labels& labels, std::uint64_t value) {
    std::string text;
    for (const auto& [name, of] : labels) {
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(of));
    }
    lines_ += text.empty() ? fmt::format("{} {}\n", name_, value)
                           : fmt::format("{}{{{}}} {}\n", name_, text, value);
  }
  /// Nothing without a value.
  [[nodiscard]] std::string text() const { return lines_.empty() ? "" : head_ + lines_; }

 private:
  std::string name_;
  std::string head_;
  std::string lines_;
};

Labels with(Labels labels, std::initializer_list<Label> more) {
  labels.insert(labels.end(), more);
  return labels;
}

Labels labels_of(const Process& process) {
  return {{"pid", std::to_string(process.pid)}, {"program", process.program}};
}
Labels labels_of(const Port& port) {
  return {{"device", port.device}, {"port", std::to_string(port.number)}};
}
Labels labels_of(const Process& process, const Port& port) {
  return with(labels_of(process), {{"device", port.device}, {"port", std::to_string(port.number)}});
}
Labels labels_of(const Process& process, const QueuePair& pair) {
  return with(
      labels_of(process),
      {{"device", pair.device}, {"port", "1"}, {"qp", fmt::format("{:#08x}", pair.number)}});
}

// ---- processes

std::string process_families(const Sample& sample, std::size_t listed) {
  Family answers{"verbena_process_answers", "gauge",
                 "1 if the process answered, 0 if it is stopped or too busy."};
  Family unlisted{"verbena_process_unlisted_queue_pairs", "gauge",
                  "Queue pairs that have no metrics of their own."};
  for (const Process& process : sample.processes) {
    answers.add(labels_of(process), process.answers ? 1 : 0);
    if (!process.answers) continue;
    const std::size_t count = process.queue_pairs.size();
    unlisted.add(labels_of(process), process.unlisted + count - std::min(count, listed));
  }
  return answers.text() + unlisted.text();
}

// ---- ports

struct Traffic {
  std::string_view metric;
  std::string_view counter;
  std::uint64_t unit;
  std::string_view help;
};
constexpr std::array kTraffic{
    Traffic{"sent_bytes_total", "port_xmit_data", kWord,
            "Bytes sent, from the IP header to the ICRC."},
    Traffic{"received_bytes_total", "port_rcv_data", kWord,
            "Bytes received, from the IP header to the ICRC."},
    Traffic{"sent_packets_total", "port_xmit_packets", 1, "Packets sent."},
    Traffic{"received_packets_total", "port_rcv_packets", 1, "Packets received."},
    Traffic{"receive_errors_total", "port_rcv_errors", 1,
            "Packets that arrived damaged, or found no room."},
    Traffic{"send_discards_total", "port_xmit_discards", 1, "Packets that could not be sent."},
};

/// Calls f(labels, port) for each port of a kind.
using EachPort = std::function<void(const std::function<void(const Labels&, const Port&)>&)>;

std::string traffic_families(std::string_view prefix, const EachPort& each) {
  std::string text;
  for (const Traffic& traffic : kTraffic) {
    Family family{fmt::format("{}_{}", prefix, traffic.metric), "counter", traffic.help};
    each([&](const Labels& labels, const Port& port) {
      const auto found = port.counters.find(traffic.counter);
      if (found != port.counters.end()) family.add(labels, traffic.unit * found->second);
    });
    text += family.text();
  }
  return text;
}

std::string port_families(const EachPort& each) {
  Family pairs{"verbena_port_queue_pairs", "gauge", "Queue pairs that exist now."};
  Family connections{"verbena_port_connections", "gauge",
                     "Connected queue pairs, by the way of their frames."};
  Family drops{"verbena_port_dropped_frames_total", "counter",
               "Frames dropped without an answer, by reason."};
  Family events{"verbena_port_events_total", "counter",
                "What the queue pairs of the port count, by the names of hw_counters."};
  constexpr std::string_view kDrop = "drop_";
  each([&](const Labels& labels, const Port& port) {
    pairs.add(labels, port.queue_pairs);
    connections.add(with(labels, {{"way", "shm"}}), port.by_shm);
    connections.add(with(labels, {{"way", "udp"}}), port.by_udp);
    for (const auto& [name, value] : port.hardware) {
      if (name.starts_with(kDrop)) {
        drops.add(with(labels, {{"reason", name.substr(kDrop.size())}}), value);
      } else {
        events.add(with(labels, {{"event", name}}), value);
      }
    }
  });
  return pairs.text() + connections.text() + drops.text() + events.text();
}

// ---- queue pairs

struct PairMetric {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  /// nullopt: this queue pair has no such thing.
  std::optional<std::uint64_t> (*value)(const QueuePair&);
};

std::optional<std::uint64_t> waiting(const std::optional<Queue>& cq) {
  return cq ? std::optional{cq->waiting} : std::nullopt;
}

template <const char* name>
std::optional<std::uint64_t> counter(const QueuePair& pair) {
  return value_of(pair.counters, name);
}
constexpr char kSentBytes[] = "sent_bytes";
constexpr char kReceivedBytes[] = "rcvd_bytes";
constexpr char kSentPackets[] = "sent_pkts";
constexpr char kReceivedPackets[] = "rcvd_pkts";
constexpr char kAgain[] = "retransmitted_pkts";
constexpr char kReceives[] = "rdma_recvs";

constexpr std::array kPairMetrics{
    PairMetric{"sent_bytes_total", "counter", "Payload sent.", counter<kSentBytes>},
    PairMetric{"received_bytes_total", "counter", "Payload received.", counter<kReceivedBytes>},
    PairMetric{"sent_packets_total", "counter", "Frames sent.", counter<kSentPackets>},
    PairMetric{"received_packets_total", "counter", "Frames received.", counter<kReceivedPackets>},
    PairMetric{"retransmitted_packets_total", "counter", "Frames sent again.", counter<kAgain>},
    PairMetric{"rnr_total", "counter", "Receiver not ready, sent or received.",
               [](const QueuePair& p) -> std::optional<std::uint64_t> {
                 return value_of(p.counters, "rcvd_rnr_err") + value_of(p.counters, "send_rnr_err");
               }},
    PairMetric{"requests_total", "counter", "Send requests that completed.",
               [](const QueuePair& p) { return std::optional{p.completed}; }},
    PairMetric{"receives_total", "counter", "Receives that completed.", counter<kReceives>},
    PairMetric{"posted_requests", "gauge", "Send requests that aren't complete.",
               [](const QueuePair& p) { return std::optional{p.send.waiting}; }},
    PairMetric{"in_flight_requests", "gauge", "Those of them that have begun to leave.",
               [](const QueuePair& p) { return std::optional{p.in_flight}; }},
    PairMetric{"posted_receives", "gauge", "Receives that are posted.",
               [](const QueuePair& p) { return std::optional{p.receive.waiting}; }},
    PairMetric{"send_completions_waiting", "gauge",
               "Completions in the send queue's CQ that nobody has polled.",
               [](const QueuePair& p) { return waiting(p.send_completions); }},
    PairMetric{"receive_completions_waiting", "gauge",
               "Completions in the receive queue's CQ that nobody has polled.",
               [](const QueuePair& p) { return waiting(p.receive_completions); }},
};

template <typename F>
void for_each_pair(const Sample& sample, std::size_t listed, F&& f) {
  for (const Process& process : sample.processes) {
    const std::size_t count = std::min(listed, process.queue_pairs.size());
    for (std::size_t i = 0; i < count; ++i) f(process, process.queue_pairs[i]);
  }
}

std::string pair_families(const Sample& sample, std::size_t listed) {
  Family info{"verbena_qp_info", "gauge", "A queue pair, its state, peer and way; always 1."};
  for_each_pair(sample, listed, [&](const Process& process, const QueuePair& pair) {
    const bool has_peer = !pair.peer.empty();
    info.add(with(labels_of(process, pair),
                  {{"service", pair.service},
                   {"state", pair.state},
                   {"peer", pair.peer},
                   {"peer_qp", has_peer ? fmt::format("{:#08x}", pair.peer_number) : std::string{}},
                   {"way", pair.way}}),
             1);
  });
  std::string text = info.text();
  for (const PairMetric& metric : kPairMetrics) {
    Family family{fmt::format("verbena_qp_{}", metric.name), metric.type, metric.help};
    for_each_pair(sample, listed, [&](const Process& process, const QueuePair& pair) {
      if (const auto value = metric.value(pair)) family.add(labels_of(process, pair), *value);
    });
    text += family.text();
  }
  return text;
}

// ---- devices of the kernel

std::string kernel_families(const Sample& sample, const EachPort& each) {
  Family hardware{"verbena_kernel_port_events_total", "counter",
                  "What the device counts, by the names of its hw_counters."};
  for (const Port& port : sample.kernel_ports) {
    for (const auto& [name, value] : port.hardware) {
      hardware.add(with(labels_of(port), {{"event", name}}), value);
    }
  }
  return traffic_families("verbena_kernel_port", each) + hardware.text();
}

}  // namespace

std::string as_metrics(const Sample& sample, std::size_t queue_pairs) {
  const EachPort ours = [&](const auto& f) {
    for (const Process& process : sample.processes) {
      for (const Port& port : process.ports) f(labels_of(process, port), port);
    }
  };
  const EachPort kernels = [&](const auto& f) {
    for (const Port& port : sample.kernel_ports) f(labels_of(port), port);
  };
  Family processes{"verbena_processes", "gauge", "Processes that use devices of Verbena."};
  processes.add({}, sample.processes.size());
  return processes.text() + process_families(sample, queue_pairs) +
         traffic_families("verbena_port", ours) + port_families(ours) +
         pair_families(sample, queue_pairs) + kernel_families(sample, kernels);
}

}  // namespace verbena::top
