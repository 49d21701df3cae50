#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "host/observation/statistics.h"
#include "host/observation/trace.h"
#include "settings/settings.h"
#include "wire/output_file.h"
#include "wire/udp_wire.h"

namespace verbena::host {

/// What a NIC lets the user see: trace and statistics, and word of what became of the capture.
class Outputs {
 public:
  static Result<Outputs> open(const settings::Settings& settings);

  /// nullptr: not wanted.
  [[nodiscard]] Trace* trace() const { return trace_.get(); }
  [[nodiscard]] PairRecords& pairs() { return pairs_; }

  /// Says which files have other names than the user gave them.
  void announce(const wire::UdpWire& wire) const;
  /// After each step of the NIC: files get what was gathered for them, and an error is said once.
  void after_step(const wire::UdpWire& wire) {
    if (trace_ != nullptr) trace_->write();
    if (watched_) say_errors(wire);
  }
  [[nodiscard]] bool wants_statistics() const { return !settings_.stats.empty(); }
  /// What this process has counted. `live`: its queue pairs.
  [[nodiscard]] Statistics statistics(const std::vector<Statistics::Pair>& live,
                                      const wire::UdpWire& wire) const;
  /// At the end of the process, if they are wanted.
  void report(const Statistics& s);
  /// In a forked child: the files are the parent's.
  void abandon();

 private:
  void say_errors(const wire::UdpWire& wire);

  settings::Settings settings_;
  std::unique_ptr<Trace> trace_;
  PairRecords pairs_{0};
  std::optional<wire::OutputFile> stats_;
  bool watched_ = false;  // there are files that may fail
  bool trace_failed_ = false;
  bool capture_failed_ = false;
};

}  // namespace verbena::host
