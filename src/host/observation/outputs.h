#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/rnic.h"
#include "host/devices/device.h"
#include "host/observation/statistics.h"
#include "host/observation/trace.h"
#include "settings/settings.h"
#include "wire/output_file.h"
#include "wire/udp_wire.h"

namespace verbena::host {

/// What a NIC shows the user: trace, statistics, and errors of the capture.
class Outputs {
 public:
  static Result<Outputs> open(const settings::Settings& settings);

  /// nullptr: not wanted.
  [[nodiscard]] Trace* trace() const { return trace_.get(); }
  [[nodiscard]] PairRecords& pairs() { return pairs_; }

  /// Logs which files have other names than the user gave them.
  void announce(const wire::UdpWire& wire) const;
  /// After each round: writes the trace, and logs each error once.
  void after_round(const wire::UdpWire& wire) {
    if (trace_ != nullptr) trace_->write();
    if (watched_) log_errors(wire);
  }
  [[nodiscard]] bool wants_statistics() const { return !settings_.stats.empty(); }
  /// What this process has counted.
  [[nodiscard]] Statistics statistics(const engine::Rnic& rnic, const wire::UdpWire& wire) const;
  /// What a device's port and its queue pairs have counted.
  [[nodiscard]] Statistics::Port port_statistics(const Device& device, const engine::Rnic& rnic,
                                                 const wire::UdpWire& wire) const;
  /// At the end of the process, if they are wanted.
  void report(const Statistics& s);
  /// In a forked child: the files are the parent's.
  void abandon();

 private:
  void log_errors(const wire::UdpWire& wire);

  settings::Settings settings_;
  std::unique_ptr<Trace> trace_;
  PairRecords pairs_{0};
  std::optional<wire::OutputFile> stats_;
  bool watched_ = false;  // there are files that may fail
  bool trace_failed_ = false;
  bool capture_failed_ = false;
};

}  // namespace verbena::host
