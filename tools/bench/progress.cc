#include "tools/bench/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace verbena::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string bar_of(double part, std::size_t width) {
  const auto full =
      static_cast<std::size_t>(std::clamp(part, 0.0, 1.0) * static_cast<double>(width));
  return fmt::format("[{}{}]", std::string(full, '#'), std::string(width - full, '.'));
}

Progress::Progress(std::size_t rounds, std::size_t measurements)
    : rounds_{rounds},
      measurements_{measurements},
      terminal_{isatty(STDERR_FILENO) == 1},
      begin_{std::chrono::steady_clock::now()} {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::size_t round, std::size_t measurement, const std::string& title) {
  if (!terminal_) return;
  constexpr std::size_t kBar = 20, kTitle = 34;
  const double part = static_cast<double>(round * measurements_ + measurement) /
                      static_cast<double>(rounds_ * measurements_);
  std::string left;
  if (part > 0.02) {
    const auto seconds = static_cast<int>(seconds_since(begin_) * (1 - part) / part);
    left = fmt::format("{}:{:02} left  ", seconds / 60, seconds % 60);
  }
  const std::string line =
      fmt::format("\r\033[K{} {:3.0f} %  {}round {}/{}  {}", bar_of(part, kBar), 100 * part, left,
                  round + 1, rounds_, title.substr(0, kTitle));
  std::fputs(line.c_str(), stderr);
}

void Progress::end_round(std::size_t round) {
  if (terminal_) return;
  std::fputs(
      fmt::format("round {} of {}: {:.0f} s\n", round + 1, rounds_, seconds_since(begin_)).c_str(),
      stderr);
}

void Progress::say(const std::string& line) {
  clear();
  std::fputs((line + "\n").c_str(), stderr);
}

}  // namespace verbena::bench
