#include "tools/bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace verbena::bench {
namespace {

[[noreturn]] void fail(int code, const std::string& what) {
  throw std::system_error{code, std::generic_category(), what};
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> with_own(const Environment& more) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::ranges::any_of(
        more, [&](const auto& one) { return text.starts_with(one.first + "="); });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) all.push_back(name + "=" + value);
  return all;
}

/// In the process group of this one, so that Ctrl-C ends both.
pid_t spawn(const std::vector<std::string>& command, const Environment& environment, int output,
            int errors) {
  const auto words = with_own(environment);
  const auto argv = pointers_to(command);
  const auto envp = pointers_to(words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
  pid_t child = -1;
  const int code = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) fail(code, command.front());
  return child;
}

int status_of(int raw) { return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw); }

int reap(pid_t child) {
  int raw = 0;
  while (waitpid(child, &raw, 0) < 0) {
    if (errno != EINTR) fail(errno, "waitpid");
  }
  return status_of(raw);
}

struct Descriptor {
  explicit Descriptor(int number) : fd{number} {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }
  void reset() {
    if (fd >= 0) close(fd);
    fd = -1;
  }
  int fd;
};

/// False: the time was up first, or it was stopped.
bool read_to_end(int fd, std::string& text, std::chrono::steady_clock::time_point until,
                 const std::atomic<bool>* stop) {
  constexpr std::chrono::milliseconds kLook{100};  // a signal may come just before poll()
  std::array<char, 16384> piece{};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || (stop != nullptr && *stop)) return false;
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&waiting, 1, static_cast<int>(std::min(left, kLook).count())) <= 0) continue;
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n == 0) return true;
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
    if (n < 0 && errno != EINTR) fail(errno, "reading what a program prints");
  }
}

std::string beginning_of(int file) {
  std::string text(4096, '\0');
  const ssize_t n = pread(file, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

}  // namespace

ChildResult run_to_end(const std::vector<std::string>& command, const Environment& environment,
                       std::chrono::milliseconds limit, const std::atomic<bool>* stop) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  Descriptor reading{ends[0]}, writing{ends[1]};
  const Descriptor errors{memfd_create("errors", MFD_CLOEXEC)};
  if (errors.fd < 0) fail(errno, "memfd_create");
  const pid_t child = spawn(command, environment, writing.fd, errors.fd);
  writing.reset();
  ChildResult result;
  const bool ended =
      read_to_end(reading.fd, result.output, std::chrono::steady_clock::now() + limit, stop);
  if (!ended) kill(child, SIGKILL);
  const int status = reap(child);
  result.status = ended ? status : ChildResult::kLate;
  result.errors = beginning_of(errors.fd);
  return result;
}

Background::Background(const std::vector<std::string>& command, const Environment& environment)
    : pid_{-1} {
  const Descriptor nowhere{open("/dev/null", O_WRONLY | O_CLOEXEC)};
  pid_ = spawn(command, environment, nowhere.fd, nowhere.fd);
}

Background::~Background() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Background::is_running() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

void Background::wait_for_end(std::chrono::milliseconds limit) const {
  const Descriptor process{static_cast<int>(syscall(SYS_pidfd_open, pid_, 0))};
  pollfd waiting{.fd = process.fd, .events = POLLIN, .revents = 0};
  if (process.fd >= 0) poll(&waiting, 1, static_cast<int>(limit.count()));
}

std::string find_in_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const auto file = std::filesystem::path{folder} / name;
    if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

}  // namespace verbena::bench
