#include "labs/common/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "labs/common/lab.h"

namespace lab {
namespace {

constexpr int kSignal = 128;
constexpr int kThrown = 1;

bool poll_until_ended(std::vector<pollfd>& waiting, int timeout) {
  int ready = 0;
  do {
    ready = poll(waiting.data(), waiting.size(), timeout);
  } while (ready < 0 && errno == EINTR);
  check(ready >= 0, "poll: {}", std::strerror(errno));
  return ready > 0;
}

/// An exception would lead the child back to what its parent does.
int status_of(const std::function<int()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kThrown;
  }
}

}  // namespace

Process::Process(const std::function<int()>& work) {
  pid_ = fork();
  check(pid_ >= 0, "fork: {}", std::strerror(errno));
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    std::exit(status_of(work));
  }
  pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pidfd_ >= 0) return;
  const int code = errno;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  throw Failed{fmt::format("pidfd_open: {}", std::strerror(code))};
}

Process::Process(Process&& other) noexcept
    : pid_{std::exchange(other.pid_, -1)}, pidfd_{std::exchange(other.pidfd_, -1)} {}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  if (pidfd_ >= 0) close(pidfd_);
}

void Process::end() const {
  if (pid_ > 0) kill(pid_, SIGTERM);
}

bool Process::ended_within(std::chrono::milliseconds time) const {
  std::vector<pollfd> waiting{{.fd = pidfd_, .events = POLLIN, .revents = 0}};
  return poll_until_ended(waiting, static_cast<int>(time.count()));
}

int Process::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) check(errno == EINTR, "waitpid: {}", std::strerror(errno));
  pid_ = -1;
  return WIFSIGNALED(status) ? kSignal + WTERMSIG(status) : WEXITSTATUS(status);
}

std::size_t Process::wait_for_any(const std::vector<Process>& processes) {
  std::vector<pollfd> waiting;
  for (const Process& one : processes) {
    waiting.push_back({.fd = one.pidfd_, .events = POLLIN, .revents = 0});
  }
  poll_until_ended(waiting, -1);
  const auto ended = std::ranges::find_if(waiting, [](const pollfd& p) { return p.revents != 0; });
  return static_cast<std::size_t>(ended - waiting.begin());
}

std::string signal_in(int status) {
  return status > kSignal ? strsignal(status - kSignal) : std::string{};
}

}  // namespace lab
