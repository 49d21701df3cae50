#include "tools/verbena/traced_child.h"

#include <fmt/format.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "tools/verbena/argv.h"
#include "tools/verbena/lab_run.h"

namespace verbena::tool {
namespace {

class IgnoredSignals {
 public:
  IgnoredSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &interrupt_);
    sigaction(SIGQUIT, &ignore, &quit_);
  }
  IgnoredSignals(const IgnoredSignals&) = delete;
  IgnoredSignals& operator=(const IgnoredSignals&) = delete;
  ~IgnoredSignals() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGQUIT, &quit_, nullptr);
  }

 private:
  struct sigaction interrupt_ {};
  struct sigaction quit_ {};
};

}  // namespace

TraceFile::TraceFile(std::string given) : path_{std::move(given)}, temporary_{path_.empty()} {
  if (!temporary_) return;
  const char* const folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/verbena-trace.XXXXXX", folder == nullptr ? "/tmp" : folder);
  const int fd = mkstemp(path_.data());
  if (fd < 0) throw std::system_error{errno, std::generic_category(), path_};
  close(fd);
}

TraceFile::~TraceFile() {
  if (temporary_) unlink(path_.c_str());
}

int run_child(const std::string& program, std::vector<std::string> words) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGQUIT);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const IgnoredSignals ignored;
  pid_t child = -1;
  const int error =
      posix_spawn(&child, program.c_str(), nullptr, &attributes, argv_of(words).data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error{error, std::generic_category(), program};
  return wait_for(child);
}

}  // namespace verbena::tool
