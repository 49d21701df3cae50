#include "host/observation/outputs.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "host/log.h"
#include "host/observation/program_name.h"
#include "system/kernel_calls.h"

namespace verbena::host {
namespace {

void log_other_name(const std::string& wanted, const std::string& got) {
  if (wanted == got) return;
  log(LogLevel::warn, "{} is in use by another process, so this process ({}) writes to {}", wanted,
      getpid(), got);
}

/// So that a part fits into a message of the registry.
constexpr std::size_t kPairsOfPart = 64;

void print(std::string_view text) {
  // What the program has written comes first, where both go to one place.
  std::fflush(stdout);
  // One write: tables of several processes stay whole. Nobody to tell if it fails.
  [[maybe_unused]] const auto n = kernel::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

Result<Outputs> Outputs::open(const settings::Settings& settings) {
  Outputs outputs;
  outputs.settings_ = settings;
  if (!settings.trace.empty()) {
    auto trace = Trace::open(settings.trace);
    if (!trace) return trace.error();
    outputs.trace_ = std::move(trace).value();
  }
  if (!settings.stats.empty()) outputs.pairs_ = PairRecords{PairRecords::kMax};
  if (!settings.stats.empty() && settings.stats != settings::kStderr) {
    auto file = OutputFile::open(settings.stats);
    if (!file) return Error{file.error().code, "statistics " + file.error().message};
    outputs.stats_.emplace(std::move(file).value());
  }
  outputs.watched_ = !settings.trace.empty() || !settings.pcap.empty();
  return outputs;
}

void Outputs::announce(const Wires& wires) const {
  if (wires.capture() != nullptr) log_other_name(settings_.pcap, wires.capture()->path());
  if (stats_) log_other_name(settings_.stats, stats_->path());
}

void Outputs::log_errors(const Wires& wires) {
  const wire::Capture* const capture = wires.capture();
  if (capture != nullptr && !capture_failed_ && !capture->error().empty()) {
    capture_failed_ = true;
    log(LogLevel::warn, "capture: {}; the capture ends, the traffic goes on", capture->error());
  }
  if (trace_ != nullptr && !trace_failed_ && !trace_->error().empty()) {
    trace_failed_ = true;
    log(LogLevel::warn, "trace: {}; the trace ends, the traffic goes on", trace_->error());
  }
}

Statistics Outputs::statistics(const engine::Rnic& rnic, const Wires& wires) const {
  std::vector<Statistics::Pair> live;
  rnic.for_each_qp([&](const engine::QueuePair& pair) {
    live.push_back(
        pair_of(host_of(pair), wires.expected_way(pair.attributes.flow, pair.attributes.dest_qpn)));
  });
  Statistics s;
  s.pid = static_cast<std::uint32_t>(getpid());
  s.program = program_name();
  pairs_.fill(s, live);
  fill_from_wires(s, wires);
  return s;
}

Outputs::Part Outputs::activity(const engine::Rnic& rnic, const Wires& wires,
                                std::uint32_t from) const {
  Part part;
  rnic.for_each_qp([&](const engine::QueuePair& pair) {  // by number
    if (pair.qpn.value() < from) return;
    if (part.pairs.size() == kPairsOfPart) {
      if (part.left++ == 0) part.next = pair.qpn.value();
      return;
    }
    const auto expected = wires.expected_way(pair.attributes.flow, pair.attributes.dest_qpn);
    part.pairs.push_back(pair_of(host_of(pair), expected));
    part.pairs.back().activity = activity_of(pair);
  });
  return part;
}

Statistics::Port Outputs::port_statistics(const Device& device, const engine::Rnic& rnic,
                                          const Wires& wires) const {
  Statistics::Port port{.device = device.name, .counters = pairs_.sum_of(device.name)};
  rnic.for_each_qp([&](const engine::QueuePair& pair) {
    if (host_of(pair).device == device.name) port.counters += pair.counters;
  });
  fill_from_wires(port, device.interface, wires);
  return port;
}

void Outputs::report(const Statistics& s) {
  if (!stats_) {
    print(as_table(s));
  } else if (auto written = stats_->append(as_json(s)); !written) {
    log(LogLevel::error, "statistics: {}", written.error().message);
  }
}

void Outputs::abandon() {
  trace_.reset();
  stats_.reset();
}

}  // namespace verbena::host
