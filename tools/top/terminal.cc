#include "tools/top/terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

namespace verbena::top {
namespace {

// ECMA-48 and xterm's private modes, which every terminal of today knows.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[2J";  // second screen, no cursor
constexpr std::string_view kLeave = "\033[0m\033[?25h\033[?1049l";
constexpr auto kClearToEnd = "\033[0m\033[K";

constexpr int kEscapeMilliseconds = 50;  // the rest of a key's sequence comes sooner

constexpr std::array kTaken{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
constexpr std::array kCrashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// A signal handler needs them.
termios earlier{};
volatile std::sig_atomic_t entered = 0;

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const auto written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // somebody made the terminal non-blocking
      pollfd writable{STDOUT_FILENO, POLLOUT, 0};
      poll(&writable, 1, 1000);
      continue;
    }
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Also in a signal handler.
void leave() {
  if (entered == 0) return;
  entered = 0;
  write_all(kLeave);
  tcsetattr(STDIN_FILENO, TCSANOW, &earlier);
}

void leave_and_crash(int number) {
  leave();
  raise(number);  // SA_RESETHAND: as it would have ended
}

bool enter() {
  if (tcgetattr(STDIN_FILENO, &earlier) != 0) return false;
  termios raw = earlier;
  cfmakeraw(&raw);
  raw.c_oflag |= OPOST;
  if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
  entered = 1;
  return write_all(kEnter);
}

sigset_t taken_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kTaken) sigaddset(&set, number);
  return set;
}

std::string_view attributes_of(Style style) {
  static const bool colors = std::getenv("NO_COLOR") == nullptr;
  switch (style) {
    case Style::strong:
      return "\033[1m";
    case Style::head:
      return "\033[1;7m";
    case Style::selected:
    case Style::keys:
      return "\033[7m";
    case Style::alarming:
      return colors ? "\033[1;33m" : "\033[1m";
    case Style::plain:
      break;
  }
  return "";
}

}  // namespace

std::string terminal_problem() {
  if (isatty(STDIN_FILENO) == 0) return "standard input is no terminal";
  if (isatty(STDOUT_FILENO) == 0) return "standard output is no terminal";
  const char* const name = std::getenv("TERM");
  if (name == nullptr || std::string_view{name}.empty()) return "TERM is not set";
  if (name == std::string_view{"dumb"}) return "this terminal (TERM=dumb) has no screen";
  return "";
}

Terminal::Terminal() {
  const sigset_t taken = taken_signals();
  signals_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) {
    throw std::runtime_error{fmt::format("signalfd: {}", std::strerror(errno))};
  }
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  struct sigaction crash {};
  crash.sa_handler = leave_and_crash;
  crash.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int number : kCrashes) sigaction(number, &crash, nullptr);
  if (!enter()) {
    const int problem = errno;
    leave();
    close(signals_);
    throw std::runtime_error{fmt::format("the terminal: {}", std::strerror(problem))};
  }
}

Terminal::~Terminal() {
  leave();
  close(signals_);
}

Size Terminal::size() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

bool Terminal::show(const std::vector<Line>& lines) {
  std::string out;
  if (shown_.size() != lines.size()) {
    shown_.clear();
    out = "\033[2J";
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i < shown_.size() && shown_[i] == lines[i]) continue;
    // Erased first: after its last column, a terminal that wraps would erase that.
    out += fmt::format("\033[{};1H{}{}{}\033[0m", i + 1, kClearToEnd, attributes_of(lines[i].style),
                       lines[i].text);
  }
  shown_ = lines;
  return write_all(out);
}

void Terminal::read_signals(Woken& woken) const {
  signalfd_siginfo info{};
  while (read(signals_, &info, sizeof info) == sizeof info) {
    const int number = static_cast<int>(info.ssi_signo);
    if (number == SIGWINCH) {
      woken.resized = true;
    } else if (number == SIGTSTP) {
      woken.keys.push_back({Key::Kind::suspend});
    } else {
      woken.ended_by = number;
    }
  }
}

void Terminal::read_keys(Woken& woken) {
  std::array<char, 256> bytes{};
  const auto got = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got <= 0) {
    woken.gone = got == 0 || (errno != EINTR && errno != EAGAIN);
    return;
  }
  input_.append(bytes.data(), static_cast<std::size_t>(got));
  for (Key key; take_key(input_, false, key);) woken.keys.push_back(key);
}

Terminal::Woken Terminal::wait(int descriptor) {
  Woken woken;
  std::array<pollfd, 3> watched{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals_, POLLIN, 0},
                                pollfd{descriptor, POLLIN, 0}};
  const int ready = poll(watched.data(), watched.size(), input_.empty() ? -1 : kEscapeMilliseconds);
  if (ready == 0) {
    for (Key key; take_key(input_, true, key);) woken.keys.push_back(key);
  }
  if (ready <= 0) return woken;
  if (watched[1].revents != 0) read_signals(woken);
  if (watched[0].revents != 0) read_keys(woken);
  woken.descriptor = watched[2].revents != 0;
  return woken;
}

void Terminal::suspend() {
  leave();
  raise(SIGSTOP);
  enter();
  forget();
}

}  // namespace verbena::top
