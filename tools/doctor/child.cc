#include "tools/doctor/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "tools/verbena/argv.h"
#include "tools/verbena/commands.h"

namespace verbena::doctor {
namespace {

/// Appends what there is. False: the other end is closed.
bool take_from(int fd, std::string& text) {
  std::array<char, 4096> piece{};
  const ssize_t n = read(fd, piece.data(), piece.size());
  if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

}  // namespace

Child::Child(const std::vector<std::string>& command) {
  std::array<int, 2> output{-1, -1}, errors{-1, -1};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0) {
    throw std::system_error{errno, std::generic_category(), "pipe"};
  }
  output_ = output[0];
  errors_ = errors[0];
  const std::vector<char*> argv = tool::argv_of(command);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  const int error = posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  close(errors[1]);
  if (error == 0) return;
  close(output_);
  close(errors_);
  throw std::system_error{error, std::generic_category(), command.front()};
}

Child::~Child() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    (void)reap();
  }
  if (output_ >= 0) close(output_);
  if (errors_ >= 0) close(errors_);
}

bool Child::read_more(Clock::time_point until) {
  std::array<pollfd, 2> fds{pollfd{output_, POLLIN, 0}, pollfd{errors_, POLLIN, 0}};
  if (output_ < 0 && errors_ < 0) return false;
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  if (left < 0) return false;
  const int ready = poll(fds.data(), fds.size(), static_cast<int>(left) + 1);
  if (ready < 0) return errno == EINTR;
  if (fds[0].revents != 0 && !take_from(output_, outcome_.output)) {
    close(output_);
    output_ = -1;
  }
  if (fds[1].revents != 0 && !take_from(errors_, outcome_.errors)) {
    close(errors_);
    errors_ = -1;
  }
  return true;
}

std::optional<std::string> Child::first_line(std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  for (;;) {
    const auto end = outcome_.output.find('\n');
    if (end != std::string::npos) return outcome_.output.substr(0, end);
    if (!read_more(until)) return std::nullopt;
  }
}

int Child::reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) break;
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Outcome Child::wait(std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  while (read_more(until)) {
  }
  outcome_.in_time = output_ < 0 && errors_ < 0;
  if (!outcome_.in_time) kill(pid_, SIGKILL);
  outcome_.status = reap();
  return outcome_;
}

Outcome Child::end() {
  kill(pid_, SIGKILL);
  return wait(std::chrono::seconds{1});
}

std::vector<std::string> verbena_with(std::vector<std::string> words) {
  words.insert(words.begin(), "/proc/self/exe");
  return words;
}

Outcome run_program(const std::vector<std::string>& command, std::chrono::milliseconds patience) {
  try {
    return Child{command}.wait(patience);
  } catch (const std::system_error& error) {
    return {tool::kExitNotFound, true, "", error.what()};
  }
}

}  // namespace verbena::doctor
