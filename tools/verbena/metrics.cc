// `verbena metrics`: the counters of processes, queue pairs and devices, for Prometheus.

#include <fmt/format.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "settings/settings.h"
#include "tools/top/metrics_server.h"
#include "tools/top/prometheus.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/library_view.h"
#include "tools/verbena/looking.h"

namespace verbena::tool {
namespace {

/// Readable once the program is to end.
class EndSignals {
 public:
  EndSignals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC);
    if (fd_ < 0) throw std::runtime_error{fmt::format("signalfd: {}", std::strerror(errno))};
  }
  EndSignals(const EndSignals&) = delete;
  EndSignals& operator=(const EndSignals&) = delete;
  ~EndSignals() { close(fd_); }

  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

void serve(const MetricsOptions& options, const top::ListenAddress& where) {
  const EndSignals signals;
  std::unique_ptr<top::MetricsServer> server;
  try {
    server = std::make_unique<top::MetricsServer>(where);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error{fmt::format("--listen {}: {}", options.listen, error.what())};
  }
  std::fputs(fmt::format("verbena metrics: http://{}/metrics\n", server->address()).c_str(),
             stderr);
  server->serve(signals.fd(), [&] { return as_metrics(look(), options.queue_pairs); });
}

void print_once(const MetricsOptions& options) {
  fmt::print("{}", as_metrics(look(), options.queue_pairs));
  if (std::fflush(stdout) != 0) throw std::runtime_error{"can't write to standard output"};
}

/// Empty: fine.
std::string problem_of(const MetricsOptions& options, const top::ListenAddress& where) {
  if (!where.problem.empty()) return "--listen: " + where.problem;
  if (where.loopback || options.allow_remote) return "";
  return fmt::format(
      "--listen {}: other machines could read the metrics there; use 127.0.0.1, or add "
      "--allow-remote",
      options.listen);
}

}  // namespace

int metrics(const MetricsOptions& options, char** argv) {
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return fail("metrics", kExitUsage, problems.front());
  top::ListenAddress where;
  if (!options.listen.empty()) {
    where = top::parse_listen_address(options.listen);
    const std::string problem = problem_of(options, where);
    if (!problem.empty()) return fail("metrics", kExitUsage, problem);
  }
  try {
    enter_library_view(argv);
    if (options.listen.empty()) {
      print_once(options);
    } else {
      serve(options, where);
    }
    return 0;
  } catch (const std::exception& error) {
    return fail("metrics", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
