#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "engine/rnic.h"
#include "host/devices/device.h"
#include "host/observation/statistics.h"
#include "host/observation/trace.h"
#include "host/wires.h"
#include "settings/settings.h"
#include "system/output_file.h"

namespace verbena::host {

/// What a NIC shows the user: trace, statistics, and errors of the capture.
class Outputs {
 public:
  static Result<Outputs> open(const settings::Settings& settings);

  /// nullptr: not wanted.
  [[nodiscard]] Trace* trace() const { return trace_.get(); }
  [[nodiscard]] PairRecords& pairs() { return pairs_; }

  /// Logs which files have other names than the user gave them.
  void announce(const Wires& wires) const;
  /// After each round: writes the trace, and logs each error once.
  void after_round(const Wires& wires) {
    if (trace_ != nullptr) trace_->write();
    if (watched_) log_errors(wires);
  }
  [[nodiscard]] bool wants_statistics() const { return !settings_.stats.empty(); }
  /// What this process has counted.
  [[nodiscard]] Statistics statistics(const engine::Rnic& rnic, const Wires& wires) const;
  /// What its queue pairs do: those from number `from` on, a bounded part.
  struct Part {
    std::vector<Statistics::Pair> pairs;
    std::size_t left = 0;    // further ones
    std::uint32_t next = 0;  // number of the first of them
  };
  [[nodiscard]] Part activity(const engine::Rnic& rnic, const Wires& wires,
                              std::uint32_t from) const;
  /// What a device's port and its queue pairs have counted.
  [[nodiscard]] Statistics::Port port_statistics(const Device& device, const engine::Rnic& rnic,
                                                 const Wires& wires) const;
  /// At the end of the process, if they are wanted.
  void report(const Statistics& s);
  /// In a forked child: the files are the parent's.
  void abandon();

 private:
  void log_errors(const Wires& wires);

  settings::Settings settings_;
  std::unique_ptr<Trace> trace_;
  PairRecords pairs_{0};
  std::optional<OutputFile> stats_;
  bool watched_ = false;  // there are files that may fail
  bool trace_failed_ = false;
  bool capture_failed_ = false;
};

}  // namespace verbena::host
