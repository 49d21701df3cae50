#pragma once

// Work in a process of its own: what a process can do once only (such as opening a device with
// these faults) is done by several of them.

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <type_traits>

#include "labs/common/lab.h"
#include "labs/common/process.h"

namespace lab {

namespace detail {

enum class Outcome : char { result = 'r', skipped = 's', refused = 'u', late = 'l', failed = 'f' };

/// In the child: the outcome's letter, then the result's bytes or the words.
template <class Work>
[[nodiscard]] std::string outcome_of(Work& work) {
  const auto words = [](Outcome how, const std::exception& error) {
    return static_cast<char>(how) + std::string{error.what()};
  };
  try {
    const auto result = work();
    std::string text(1 + sizeof result, static_cast<char>(Outcome::result));
    std::memcpy(text.data() + 1, &result, sizeof result);
    return text;
  } catch (const Skipped& reason) {
    return words(Outcome::skipped, reason);
  } catch (const Refused& reason) {
    return words(Outcome::refused, reason);
  } catch (const Late& waited_for) {
    return words(Outcome::late, waited_for);
  } catch (const std::exception& error) {
    return words(Outcome::failed, error);
  }
}

inline void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return;  // nobody reads any more
    if (n > 0) at += static_cast<std::size_t>(n);
  }
}
[[nodiscard]] inline std::string read_all(int fd) {
  std::string text;
  std::array<char, 512> room{};
  while (true) {
    const ssize_t n = read(fd, room.data(), room.size());
    if (n > 0) text.append(room.data(), static_cast<std::size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return text;
  }
}

}  // namespace detail

/// What work() returns there, or what it throws.
template <class Work>
[[nodiscard]] auto in_child(const Options& options, Work work) {
  using Result = std::invoke_result_t<Work>;
  static_assert(std::is_trivially_copyable_v<Result>);
  std::array<int, 2> ends{-1, -1};
  if (pipe(ends.data()) != 0) throw Failed{fmt::format("pipe: {}", std::strerror(errno))};
  Process child{[&] {
    alarm(options.timeout + 1);  // a child inherits the handler, not the clock
    close(ends[0]);
    detail::write_all(ends[1], detail::outcome_of(work));
    return 0;
  }};
  close(ends[1]);
  const std::string outcome = detail::read_all(ends[0]);
  close(ends[0]);
  const int status = child.wait();
  if (outcome.empty()) {
    throw Failed{fmt::format("a child process ended: status {} {}", status, signal_in(status))};
  }
  switch (static_cast<detail::Outcome>(outcome.front())) {
    case detail::Outcome::late:
      throw Late{outcome.substr(1)};
    case detail::Outcome::skipped:
      throw Skipped{outcome.substr(1)};
    case detail::Outcome::refused:
      throw Refused{outcome.substr(1)};
    case detail::Outcome::failed:
      throw Failed{outcome.substr(1)};
    case detail::Outcome::result:
      break;
  }
  Result result;
  std::memcpy(&result, outcome.data() + 1, sizeof result);
  return result;
}

}  // namespace lab
