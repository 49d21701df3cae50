#include "labs/common/rounds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace lab {
namespace {

constexpr std::chrono::milliseconds kOnTerminal{200};
constexpr std::chrono::seconds kElsewhere{10};
constexpr auto kEraseLine = "\r\033[K";

}  // namespace

void Rounds::report(std::uint64_t rounds, Clock::time_point now) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  next_ = now + (terminal ? std::chrono::milliseconds{kOnTerminal} : kElsewhere);
  const auto part = static_cast<double>(rounds) / static_cast<double>(count_);
  const double left = std::chrono::duration<double>{now - start_}.count() * (1 / part - 1);
  const std::string text = fmt::format("{} of {} rounds, {:.0f} %, about {:.0f} s left", rounds,
                                       count_, part * 100, left);
  if (terminal) {
    fmt::print(stderr, "{}{}", kEraseLine, text);
    line_open_ = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
}

Rounds::~Rounds() {
  if (line_open_) fmt::print(stderr, "{}", kEraseLine);
}

}  // namespace lab
