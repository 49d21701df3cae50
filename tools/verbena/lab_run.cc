#include "tools/verbena/lab_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "tools/verbena/argv.h"

namespace verbena::tool {
namespace {

constexpr std::string_view kShown = "shown: ";

[[noreturn]] void fail(int code, const std::string& what) {
  throw std::system_error{code, std::generic_category(), what};
}

pid_t spawn(const std::vector<std::string>& command, int output) {
  const std::vector<char*> argv = argv_of(command);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(error, command.front());
  return child;
}

std::string read_to_the_end(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) fail(errno, "reading what the lab prints");
  }
}

}  // namespace

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) fail(errno, "waitpid");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

LabResult run_lab(const std::vector<std::string>& command) {
  const auto start = std::chrono::steady_clock::now();
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  LabResult result;
  pid_t child = -1;
  try {
    child = spawn(command, ends[1]);
    close(ends[1]);
  } catch (...) {
    close(ends[0]);
    close(ends[1]);
    throw;
  }
  result.output = read_to_the_end(ends[0]);
  close(ends[0]);
  result.status = wait_for(child);
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  return result;
}

std::string_view shown_in(std::string_view output) {
  const auto at = output.rfind(kShown);
  if (at == std::string_view::npos || (at != 0 && output[at - 1] != '\n')) return {};
  const auto text = output.substr(at + kShown.size());
  return text.substr(0, text.find('\n'));
}

}  // namespace verbena::tool
