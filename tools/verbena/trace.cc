// `verbena trace`: runs a program, and shows what its queue pairs did.

#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/lab_run.h"

namespace verbena::tool {
namespace {

/// A file of its own that is gone when the report is made, unless the user named one.
class TraceFile {
 public:
  explicit TraceFile(std::string given) : path_{std::move(given)}, temporary_{path_.empty()} {
    if (!temporary_) return;
    const char* const folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/verbena-trace.XXXXXX", folder == nullptr ? "/tmp" : folder);
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw std::system_error{errno, std::generic_category(), path_};
    close(fd);
  }
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile() {
    if (temporary_) unlink(path_.c_str());
  }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

/// The terminal's signals are for the program: we stay, and report what it did until then.
class SignalsForTheProgram {
 public:
  SignalsForTheProgram() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before_[0]);
    sigaction(SIGQUIT, &ignore, &before_[1]);
  }
  SignalsForTheProgram(const SignalsForTheProgram&) = delete;
  SignalsForTheProgram& operator=(const SignalsForTheProgram&) = delete;
  ~SignalsForTheProgram() {
    sigaction(SIGINT, &before_[0], nullptr);
    sigaction(SIGQUIT, &before_[1], nullptr);
  }

 private:
  struct sigaction before_[2]{};
};

/// `verbena run --trace FILE … -- PROGRAM …` in a child: its exit status.
int run_traced(std::vector<std::string> words) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  const int error =
      posix_spawn(&child, "/proc/self/exe", nullptr, &attributes, argv_of(words).data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error{error, std::generic_category(), "verbena run"};
  return wait_for(child);
}

}  // namespace

int trace(const TraceOptions& options) {
  try {
    const TraceFile file{options.output};
    std::vector<std::string> words{"verbena", "run", "--trace", file.path(), "--wire", "udp"};
    if (!options.faults.empty()) words.insert(words.end(), {"--faults", options.faults});
    words.emplace_back("--");
    words.insert(words.end(), options.command.begin(), options.command.end());
    int status = 0;
    {
      const SignalsForTheProgram signals;
      status = run_traced(words);
    }
    if (status == kExitRefused || status == kExitNotFound || status == kExitUsage) return status;
    if (options.output.empty() || options.report) {
      ReportOptions shown;
      shown.files = {file.path()};
      shown.fold = true;
      shown.html = options.html;
      std::fflush(stdout);
      if (const int failed = report(shown); failed != 0 && status == 0) return failed;
    }
    return status;
  } catch (const std::system_error& error) {
    return fail("trace", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
