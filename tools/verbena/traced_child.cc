#include "tools/verbena/traced_child.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/lab_run.h"

namespace verbena::tool {
namespace {

constexpr std::array kHandled{SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE};

// What the handler knows.
std::atomic<pid_t> running_child{0};
std::atomic<const char*> file_to_remove{nullptr};
std::atomic<bool> hung_up{false};
static_assert(std::atomic<pid_t>::is_always_lock_free &&
              std::atomic<const char*>::is_always_lock_free);

void handle(int signal) {
  const int error = errno;
  if (signal == SIGHUP) hung_up = true;
  if (const pid_t child = running_child.load(); child != 0) {
    if (signal != SIGINT && signal != SIGQUIT) kill(child, signal);
  } else {
    if (const char* const path = file_to_remove.load(); path != nullptr) unlink(path);
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
    raise(signal);  // it comes when this handler has returned
  }
  errno = error;
}

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kHandled) sigaddset(&set, signal);
  return set;
}

class Attributes {
 public:
  explicit Attributes(const sigset_t& mask) {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &mask);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }

  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

TraceFile::TraceFile(std::string given) : path_{std::move(given)}, temporary_{path_.empty()} {
  if (temporary_) {
    const char* const folder = std::getenv("TMPDIR");
    path_ = fmt::format("{}/verbena-trace.XXXXXX", folder == nullptr ? "/tmp" : folder);
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw std::system_error{errno, std::generic_category(), path_};
    close(fd);
    file_to_remove = path_.c_str();
  }
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_mask = handled_signals();
  ours.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kHandled.size(); ++i) {
    sigaction(kHandled[i], nullptr, &earlier_[i]);
    // nohup(1) and shells that run us in the background want it ignored.
    if (earlier_[i].sa_handler != SIG_IGN) sigaction(kHandled[i], &ours, nullptr);
  }
}

TraceFile::~TraceFile() {
  if (temporary_) unlink(path_.c_str());
  file_to_remove = nullptr;
  for (std::size_t i = 0; i < kHandled.size(); ++i) sigaction(kHandled[i], &earlier_[i], nullptr);
}

bool TraceFile::is_empty() const {
  std::error_code unknown;
  return std::filesystem::file_size(path_, unknown) == 0;
}

void TraceFile::keep(const char* command) {
  if (!temporary_ || hung_up) return;
  temporary_ = false;
  file_to_remove = nullptr;
  fail(command, kExitFailure,
       fmt::format("the trace is kept in {0}; verbena report {0} reads it", path_));
}

int run_child(const std::string& program, const std::vector<std::string>& words) {
  const sigset_t handled = handled_signals();
  sigset_t earlier;
  sigprocmask(SIG_BLOCK, &handled, &earlier);  // until the handler knows the child
  const Attributes attributes{earlier};
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), nullptr, attributes.get(),
                                argv_of(words).data(), environ);
  if (error == 0) running_child = child;
  sigprocmask(SIG_SETMASK, &earlier, nullptr);
  if (error != 0) throw std::system_error{error, std::generic_category(), program};
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  running_child = 0;  // while nobody else can have its number yet
  return wait_for(child);
}

}  // namespace verbena::tool
