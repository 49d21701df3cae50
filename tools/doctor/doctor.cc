// `verbena doctor [HOST]`: what is wrong with RDMA on this machine, and the command that mends it.

#include <fmt/format.h>
#include <langinfo.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tools/doctor/check.h"
#include "tools/doctor/connection_probe.h"
#include "tools/doctor/devices_check.h"
#include "tools/doctor/firewall_check.h"
#include "tools/doctor/gpu_check.h"
#include "tools/doctor/host_check.h"
#include "tools/doctor/kernel_check.h"
#include "tools/doctor/limits_check.h"
#include "tools/doctor/listener.h"
#include "tools/doctor/preload_check.h"
#include "tools/doctor/print.h"
#include "tools/doctor/same_host_check.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/library_view.h"

namespace verbena::doctor {
namespace {

bool terminal_has_utf8() {
  std::setlocale(LC_CTYPE, "");
  return nl_langinfo(CODESET) == std::string_view{"UTF-8"};
}

/// Prints each finding when it is there, or all of them as JSON at the end.
class Report {
 public:
  explicit Report(bool in_json) : json_{in_json}, utf8_{terminal_has_utf8()} {}

  void add(const Finding& finding) {
    if (!json_) {
      constexpr auto kErase = "\033[K";
      fmt::print("{}{}", isatty(STDOUT_FILENO) != 0 ? kErase : "", as_text(finding, utf8_));
      std::fflush(stdout);
    }
    all_.push_back(finding);
  }
  /// On a terminal, until the next finding.
  void expect(std::string_view what) const {
    if (json_ || isatty(STDOUT_FILENO) == 0) return;
    fmt::print("{} ...\r", what);
    std::fflush(stdout);
  }
  void add(const Findings& findings) {
    for (const Finding& f : findings) add(f);
  }
  /// The exit status.
  int finish(const tool::DoctorOptions& options) {
    const Tally sum = tally(all_);
    fmt::print("{}", json_ ? as_json(all_, options.host) : "\n" + summary(sum));
    const bool bad = sum.failures > 0 || (options.strict && sum.warnings > 0);
    return bad ? tool::kExitFailure : 0;
  }

 private:
  bool json_;
  bool utf8_;
  Findings all_;
};

/// What programs need of this machine, whatever the other host is.
void check_machine(Report& report) {
  const Finding library = check_library();
  report.add(library);
  report.add(check_preload());
  report.add(check_variables());
  const Finding rdma_core = check_rdma_core();
  report.add(rdma_core);
  unsetenv("LD_PRELOAD");  // it is judged; our children set their own
  LibraryFacts facts;
  if (library.verdict == Verdict::ok) {
    const DevicesCheck devices = check_devices();
    report.add(devices.findings);
    report.add(check_traffic());
    if (rdma_core.verdict == Verdict::ok) {
      const SameHostCheck same_host = check_same_host(devices.address);
      if (same_host.finding) report.add(*same_host.finding);
      facts = same_host.facts;
      report.add(judge_version(facts.version));
    }
  }
  report.add(check_limits(kernel_devices(), facts.buffers));
  report.add(check_user_namespaces());
  report.add(check_modules());
  report.add(check_firewall());
  report.add(judge_gpus(find_gpus(), facts.gpu_memory));
}

int find_what_is_wrong(const tool::DoctorOptions& options) {
  Report report{options.json};
  check_machine(report);
  if (!options.host.empty()) {
    report.expect("asking " + options.host);
    report.add(check_host(options.host, options.port));
  }
  return report.finish(options);
}

/// The doctor's child.
int probe_for_parent(const tool::DoctorOptions& options) {
  constexpr auto kConnectPatience = std::chrono::milliseconds{2500};
  const Resolved named = resolve(options.host);
  if (!named.address) return tool::fail("doctor", tool::kExitFailure, named.problem);
  const auto found = probe_connection(named.address->at_port(options.port), kConnectPatience);
  fmt::print("{}\n", to_json_object(found).dump());
  return 0;
}

}  // namespace
}  // namespace verbena::doctor

namespace verbena::tool {

int doctor(const DoctorOptions& options, char** argv) {
  try {
    if (!options.listen && !options.probe) return doctor::find_what_is_wrong(options);
    enter_library_view(argv);
    if (options.probe) return doctor::probe_for_parent(options);
    return doctor::listen_for_doctors({options.port, options.at, options.json});
  } catch (const std::exception& error) {
    return fail("doctor", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
