#include "labs/common/lab.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "labs/common/play.h"

namespace lab {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kSkipped = 77;

std::string teller;   // "server", "client", "rank 3", or "": there is one end only
int ready_pipe = -1;  // -1: nobody waits

[[noreturn]] void fail_errno(const char* what) {
  throw Failed{fmt::format("{}: {}", what, std::strerror(errno))};
}

double seconds(const timeval& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
}

void print_costs() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const Costs& c = costs();
  say("cost: CPU {:.3f} s user, {:.3f} s system; {} wake-ups", seconds(used.ru_utime),
      seconds(used.ru_stime), used.ru_nvcsw);
  say("cost: {} round trips, {} bytes copied by the program, {} completions taken, {} needed",
      c.round_trips, c.copied, c.completions, c.needed);
}

}  // namespace

void end_at_timeout(unsigned limit) {
  struct sigaction action {};
  action.sa_handler = [](int) {
    constexpr std::string_view kWords =
        "lab: no end within --timeout: the other end is gone, or it needs longer\n";
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
  } catch (const std::exception& error) {
    std::fflush(stdout);
    fmt::print(stderr, "{}{}\n", prefix, error.what());
    return kFailed;
  }
}

namespace {

/// The server in a child. Its first verb comes after the fork.
pid_t start_server(End server, const Options& options, int& ready_end) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("pipe");
  const pid_t child = fork();
  if (child < 0) fail_errno("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // no server outlives its lab
    end_at_timeout(options.timeout);
    close(ends[0]);
    ready_pipe = ends[1];
    std::exit(play(server, options, "server"));
  }
  close(ends[1]);
  ready_end = ends[0];
  return child;
}

bool wait_until_ready(int ready_end) {
  char byte = 0;
  ssize_t n = 0;
  do {
    n = read(ready_end, &byte, 1);
  } while (n < 0 && errno == EINTR);
  close(ready_end);
  return n == 1;
}

int reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail_errno("waitpid");
  }
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  if (WTERMSIG(status) != SIGTERM) fmt::print(stderr, "server: {}\n", strsignal(WTERMSIG(status)));
  return kFailed;
}

int play_both(End server, End client, const Options& options) {
  int ready_end = -1;
  const pid_t child = start_server(server, options, ready_end);
  if (!wait_until_ready(ready_end)) return reap(child);  // it has said why
  const int ours = play(client, options, "client");
  if (ours != 0) kill(child, SIGTERM);
  const int theirs = reap(child);
  return ours != 0 ? ours : theirs;
}

}  // namespace

int run(int argc, char** argv, const Defaults& defaults, End server, End client) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines of two processes stay whole
  try {
    const Options options = parse(argc, argv, defaults);
    end_at_timeout(options.timeout);
    switch (options.role) {
      case Role::both:
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

void ready() {
  if (ready_pipe < 0) {
    say("ready");
    return;
  }
  const char byte = 1;
  if (write(ready_pipe, &byte, 1) != 1) fail_errno("telling the client that the server is ready");
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

Costs& costs() {
  static Costs here;
  return here;
}

}  // namespace lab
