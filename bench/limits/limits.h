#pragma once

// What the programs of this folder share. Each measures one thing that the machine can do without
// RDMA, for a fraction of a second, and prints one JSON object. `make goals` compares Verbena with
// them.
//
// Exit status: 0; 1: failed; 2: usage; 77: the machine forbids it, and stderr says why.

#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

namespace limits {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void fail(std::string_view what) {
  fmt::print(stderr, "{}: {}: {}\n", program_invocation_short_name, what, std::strerror(errno));
  std::exit(1);
}

[[noreturn]] inline void skip(std::string_view what) {
  fmt::print(stderr, "{}: skipped: {}: {}\n", program_invocation_short_name, what,
             std::strerror(errno));
  std::exit(77);
}

inline void require(bool ok, std::string_view what) {
  if (!ok) fail(what);
}

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Options {
  std::size_t size = 64;
  double seconds = 0.3;
  int first_core = -1;  // of the end that sends first; -1: where the scheduler puts it
  int second_core = -1;
  bool rewrite = false;  // the sender's buffer, before each message
  bool spin = false;     // instead of sleeping until a message is there
  std::size_t ring = 256 * 1024;
  std::size_t piece = 32 * 1024;
  std::size_t depth = 128;  // messages that are posted and not complete
  bool events = false;      // sleep until a completion event comes, instead of polling
};

[[noreturn]] inline void usage() {
  fmt::print(stderr,
             "usage: {} [--size BYTES] [--seconds S] [--cores A,B] [--rewrite] [--spin]\n"
             "       [--ring BYTES] [--piece BYTES] [--depth MESSAGES] [--events]\n",
             program_invocation_short_name);
  std::exit(2);
}

inline std::size_t positive(const char* text) {
  char* end = nullptr;
  const auto value = std::strtoull(text, &end, 10);
  if (*end != '\0' || value == 0) usage();
  return value;
}

/// Every program takes all options, also those that mean nothing to it.
inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--rewrite") {
      options.rewrite = true;
      continue;
    }
    if (name == "--spin") {
      options.spin = true;
      continue;
    }
    if (name == "--events") {
      options.events = true;
      continue;
    }
    if (++i == argc) usage();
    if (name == "--size") {
      options.size = positive(argv[i]);
    } else if (name == "--ring") {
      options.ring = positive(argv[i]);
    } else if (name == "--piece") {
      options.piece = positive(argv[i]);
    } else if (name == "--depth") {
      options.depth = positive(argv[i]);
    } else if (name == "--seconds") {
      options.seconds = std::atof(argv[i]);
      if (options.seconds <= 0) usage();
    } else if (name == "--cores") {
      char* end = nullptr;
      options.first_core = static_cast<int>(std::strtol(argv[i], &end, 10));
      if (*end != ',') usage();
      options.second_core = static_cast<int>(std::strtol(end + 1, &end, 10));
      if (*end != '\0') usage();
    } else {
      usage();
    }
  }
  if (options.piece > options.ring) usage();
  // An end that spins doesn't notice that the other one failed.
  alarm(static_cast<unsigned>(options.seconds) + 30);
  return options;
}

/// Puts the calling process on a core.
inline void pin(int core) {
  if (core < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  require(sched_setaffinity(0, sizeof set, &set) == 0, fmt::format("no core {} to run on", core));
}

/// Zeroed pages that forked processes share, or that each has for itself.
inline std::byte* pages(std::size_t size, int sharing) {
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  require(memory != MAP_FAILED, "mmap");
  return static_cast<std::byte*>(memory);
}

template <typename T>
T& shared() {
  return *new (pages(sizeof(T), MAP_SHARED)) T{};
}

/// Runs `body` in a forked process, which is killed with the returned object, or when this process
/// ends.
class Child {
 public:
  explicit Child(const std::function<void()>& body) : pid_{fork()} {
    require(pid_ >= 0, "fork");
    if (pid_ != 0) return;
    require(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
    body();
    _exit(0);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

  /// For it to end by itself.
  void join() const {
    siginfo_t info{};
    require(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) == 0, "waitid");
    require(info.si_code == CLD_EXITED && info.si_status == 0, "the other end");
  }

 private:
  pid_t pid_;
};

/// CPU time of this process so far, in user mode and in the kernel.
inline double cpu_seconds() {
  rusage used{};
  require(getrusage(RUSAGE_SELF, &used) == 0, "getrusage");
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Figure {
  std::string_view name;
  double value;
};

inline void print(std::initializer_list<Figure> figures) {
  fmt::print("{{");
  std::string_view separator;
  for (const auto& [name, value] : figures) {
    fmt::print("{}\"{}\": {:.6g}", std::exchange(separator, ", "), name, value);
  }
  fmt::print("}}\n");
}

/// Half round trips until the time is up, as µs: `exchange` sends to the other end and returns with
/// its answer. The first tenth warms up. Prints the median and the 99th of a hundred.
inline void print_half_round_trips(const Options& options, const std::function<void()>& exchange) {
  std::vector<double> times;
  times.reserve(10'000'000);
  const auto begin = Clock::now();
  auto now = begin;
  while (seconds_since(begin) < options.seconds && times.size() < times.capacity()) {
    exchange();
    const auto then = std::exchange(now, Clock::now());
    times.push_back(std::chrono::duration<double, std::micro>(now - then).count() / 2);
  }
  times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 10));
  std::sort(times.begin(), times.end());
  print({{"p50_us", times[times.size() / 2]},
         {"p99_us", times[times.size() * 99 / 100]},
         {"rounds", static_cast<double>(times.size())}});
}

}  // namespace limits
