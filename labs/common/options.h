#pragma once

// What every lab takes from its command line.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "labs/common/own_options.h"

namespace lab {

enum class Role : std::uint8_t { both, server, client };

struct Options {
  std::string lab;           // its name
  std::uint32_t layout = 1;  // of what its ends tell each other
  Role role = Role::both;
  std::string host = "127.0.0.1";  // the server's; both ends here: see home_address()
  std::string device;              // empty: whichever reaches the host
  std::uint16_t port = 7471;       // 0: any free one, which the server tells the client
  bool port_given = false;         // on the command line
  std::size_t size = 0;            // bytes
  std::uint64_t iters = 0;         // how often
  unsigned timeout = 60;           // seconds, for all of it
  bool stats = false;

  /// What is still left of the timeout is what any wait may take.
  std::chrono::steady_clock::time_point deadline{};
};

[[nodiscard]] inline std::chrono::milliseconds time_left(const Options& options) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      options.deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds{1});
}

/// A lab's own defaults and options.
struct Defaults {
  const char* name = "";
  const char* idea = "";
  std::size_t size = 4096;
  std::size_t least = 1, most = ~std::size_t{0};  // that --size may be
  std::uint64_t iters = 1;
  std::uint16_t port = 7471;
  std::uint32_t layout = 1;            // raised with every change of what its ends tell each other
  std::vector<std::string> without{};  // common options that would change nothing here
  bool two_ends = true;                // false: one process; it has no server and no client
  /// Adds what only this lab takes.
  std::function<void(OwnOptions&)> more{};
};

/// The command line was answered (--help) or refused: leave with this status.
struct Answered {
  int status;
};

/// Throws Answered, having printed why; or, for `--options`, what the lab takes: an option a line,
/// with a word behind it if it wants a value. Sets the VERBENA_* variables that the faults, --pcap,
/// --trace and --stats stand for, and VERBENA_WIRE where packets are to be seen: call it before the
/// first verb.
[[nodiscard]] Options parse(int argc, char** argv, const Defaults& defaults);

}  // namespace lab
