#pragma once

// The frame of every lab: its ends, its words, its checks.
//
//   int main(int argc, char** argv) {
//     return lab::run(argc, argv, {.name = "hello", .idea = "…"}, server, client);
//   }

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "labs/common/options.h"

namespace rdma {
class Error;
}

namespace lab {

/// Something isn't as the lab says it must be: exit status 1.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The time was over while the lab waited for this: exit status 1.
struct Late : Failed {
  using Failed::Failed;
};

/// The device (or the machine) can't do it: exit status 77.
struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The device or the machine is too small for what the command line asks: exit status 2. For an end
/// to throw before it tells anybody that it is ready.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using End = void (*)(const Options&);

/// Two ends: both here, the server a child of its own, or the one that the command line names.
int run(int argc, char** argv, const Defaults& defaults, End server, End client);

/// One process without ends.
int run_alone(int argc, char** argv, Defaults defaults, End body);

/// The server listens on `port`: the client of the same command line may start.
void ready(std::uint16_t port);

/// A line of the story, with the end that tells it in front.
void say(const std::string& line);
template <typename... T>
void say(fmt::format_string<T...> format, T&&... values) {
  say(fmt::format(format, std::forward<T>(values)...));
}

/// The one line for the table of `verbena lab all`. Once, by the end that knows.
void shown(const std::string& line);
template <typename... T>
void shown(fmt::format_string<T...> format, T&&... values) {
  shown(fmt::format(format, std::forward<T>(values)...));
}

/// Throws Failed.
inline void check(bool holds, const std::string& otherwise) {
  if (!holds) throw Failed{otherwise};
}
template <typename... T>
requires(sizeof...(T) > 0) void check(bool holds, fmt::format_string<T...> otherwise,
                                      T&&... values) {
  if (!holds) throw Failed{fmt::format(otherwise, std::forward<T>(values)...)};
}

/// Throws Late; `what` was waited for.
template <typename... T>
void in_time(bool came, fmt::format_string<T...> what, T&&... values) {
  if (!came) throw Late{fmt::format(what, std::forward<T>(values)...)};
}
/// Throws Failed, with what to start.
[[noreturn]] void nobody_came(const Options& options);
/// That, and what to look at when the other end can't be reached.
[[nodiscard]] std::string not_there(const Options& options, const rdma::Error& why);

}  // namespace lab
