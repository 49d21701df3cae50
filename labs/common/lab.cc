#include "labs/common/lab.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "labs/common/cost.h"
#include "labs/common/exit_status.h"
#include "labs/common/home_address.h"
#include "labs/common/play.h"
#include "labs/common/process.h"
#include "labs/common/temporary_folder.h"
#include "rdma++/error.h"

namespace lab {
namespace {

std::string teller;   // "server", "client", "rank 3", or "": there is one end only
int ready_pipe = -1;  // -1: nobody waits

[[noreturn]] void fail_errno(const char* what) {
  throw Failed{fmt::format("{}: {}", what, std::strerror(errno))};
}

/// For a command that is to meet this one.
std::string port_option(const Options& options) {
  return options.port_given ? fmt::format(" --port {}", options.port) : "";
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

/// The process has threads of its own for the device, where that is software.
void print_costs() {
  if (const std::string work = cost_of_work(); !work.empty()) say("cost of the work: {}", work);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  say("cost of the process: {:.3f} s CPU user, {:.3f} s system, with set-up and the device",
      seconds(used.ru_utime), seconds(used.ru_stime));
}

}  // namespace

void end_at_timeout(unsigned limit) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    constexpr std::string_view kWords =
        "not done within --timeout: give more time or less work, or the other end is gone\n";
    remove_temporary_folder();
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kWords.data(), kWords.size());
    _exit(kFailed);
  };
  sigaction(SIGALRM, &action, nullptr);
  alarm(limit + 2);  // a connection may stay a second for a peer that doesn't answer
}

int play(const std::function<void(const Options&)>& part, const Options& options,
         const std::string& name) {
  teller = name;
  const std::string prefix = name.empty() ? "" : fmt::format("{}: ", name);
  const auto too_late = [&](const std::exception& waited_for) {
    std::fflush(stdout);
    fmt::print(stderr,
               "{}not done within --timeout {} s: give more time or less work, or the other end "
               "is gone. The last wait was for {}\n",
               prefix, options.timeout, waited_for.what());
    return kFailed;
  };
  try {
    part(options);
    if (options.stats) print_costs();
    return 0;
  } catch (const Skipped& reason) {
    fmt::print("{}SKIPPED: {}\n", prefix, reason.what());
    return kSkipped;
  } catch (const Refused& reason) {
    fmt::print(stderr, "{}{}\n", prefix, reason.what());
    return kUsage;
  } catch (const Late& late) {
    return too_late(late);
  } catch (const std::exception& error) {
    const bool timed_out = dynamic_cast<const rdma::TimedOut*>(&error) != nullptr;
    if (timed_out && std::chrono::steady_clock::now() >= options.deadline) return too_late(error);
    std::fflush(stdout);
    fmt::print(stderr, "{}{}\n", prefix, error.what());
    return kFailed;
  }
}

void nobody_came(const Options& options) {
  throw Failed{fmt::format("no client connected within {} s; start `verbena lab {} client HOST{}`",
                           options.timeout, options.lab, port_option(options))};
}

std::string not_there(const Options& options, const rdma::Error& why) {
  constexpr std::array kUnreached{ECONNREFUSED, ECONNRESET, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT};
  if (std::ranges::find(kUnreached, why.code()) == kUnreached.end()) return why.what();
  const std::string there =
      options.role == Role::client
          ? fmt::format("`verbena lab {} server{}`", options.lab, port_option(options))
          : fmt::format("the other end of `verbena lab {}`", options.lab);
  return fmt::format("{}; is {} running there, and can it be reached?", why.what(), there);
}

namespace {

/// The server in a child; `ready_end` says on which port it listens.
Process start_server(End server, const Options& options, int& ready_end) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("pipe");
  Process child{[&] {
    end_at_timeout(options.timeout);
    close(ends[0]);
    ready_pipe = ends[1];
    return play(server, options, "server");
  }};
  close(ends[1]);
  ready_end = ends[0];
  return child;
}

/// The server's port; nullopt: it ended instead.
std::optional<std::uint16_t> wait_until_ready(int ready_end) {
  std::uint16_t port = 0;
  ssize_t n = 0;
  do {
    n = read(ready_end, &port, sizeof port);
  } while (n < 0 && errno == EINTR);
  close(ready_end);
  return n == sizeof port ? std::optional{port} : std::nullopt;
}

int reap(Process& server, bool asked_to_end) {
  const int status = server.wait();
  const std::string signal = signal_in(status);
  if (signal.empty()) return status;
  if (!asked_to_end) fmt::print(stderr, "server: {}\n", signal);
  return kFailed;
}

/// A client that failed may have failed because the server did: that one's own words come first, so
/// it gets the time to say them. Then it is ended.
bool end_server(const Process& server, int client_status) {
  constexpr std::chrono::seconds kLastWords{1};
  if (client_status == kFailed && server.ended_within(kLastWords)) return false;
  server.end();
  return true;
}

int play_both(End server, End client, Options options) {
  if (!options.port_given) options.port = 0;  // the usual one may be somebody else's
  int ready_end = -1;
  Process child = start_server(server, options, ready_end);
  const auto port = wait_until_ready(ready_end);
  if (!port) return reap(child, false);  // it has said why
  options.port = *port;
  const int ours = play(client, options, "client");
  const bool asked_to_end = ours != 0 && end_server(child, ours);
  const int theirs = reap(child, asked_to_end);
  return ours != 0 ? ours : theirs;
}

}  // namespace

int run(int argc, char** argv, const Defaults& defaults, End server, End client) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines of two processes stay whole
  try {
    Options options = parse(argc, argv, defaults);
    end_at_timeout(options.timeout);
    switch (options.role) {
      case Role::both:
        options.host = home_address(options);
        return play_both(server, client, options);
      case Role::server:
        return play(server, options, "server");
      case Role::client:
        return play(client, options, "client");
    }
  } catch (const Answered& answered) {
    return answered.status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", defaults.name, error.what());
  }
  return kFailed;
}

int run_alone(int argc, char** argv, Defaults defaults, End body) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  defaults.two_ends = false;
  try {
    const Options options = parse(argc, argv, defaults);
    end_at_timeout(options.timeout);
    return play(body, options, "");
  } catch (const Answered& answered) {
    return answered.status;
  }
}

void ready(std::uint16_t port) {
  if (ready_pipe < 0) {
    say("ready");
    return;
  }
  if (write(ready_pipe, &port, sizeof port) != sizeof port)
    fail_errno("telling the client that the server is ready");
  close(ready_pipe);
  ready_pipe = -1;
}

void say(const std::string& line) {
  if (teller.empty()) {
    fmt::print("{}\n", line);
  } else {
    fmt::print("{:<6} | {}\n", teller, line);
  }
}

void shown(const std::string& line) { fmt::print("shown: {}\n", line); }

}  // namespace lab
