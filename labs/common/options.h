#pragma once

// What every lab takes from its command line.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace CLI {
class App;
}

namespace lab {

enum class Role : std::uint8_t { both, server, client };

struct Options {
  Role role = Role::both;
  std::string host = "127.0.0.1";  // the server's
  std::string device;              // empty: whichever reaches the host
  std::uint16_t port = 7471;
  std::size_t size = 0;     // bytes
  std::uint64_t iters = 0;  // how often
  unsigned timeout = 60;    // seconds, for all of it
  bool stats = false;

  /// What is still left of the timeout is what any wait may take.
  std::chrono::steady_clock::time_point deadline{};
};

/// A lab's own defaults and options.
struct Defaults {
  const char* name = "";
  const char* idea = "";
  std::size_t size = 4096;
  std::uint64_t iters = 1;
  std::uint16_t port = 7471;
  bool two_ends = true;  // false: one process; it has no server and no client
  /// Adds what only this lab takes.
  std::function<void(CLI::App&)> more{};
  /// Why the lab can't do with these options, for a usage error; empty: it can.
  std::function<std::string(const Options&)> refuse{};
};

/// For `refuse`: empty when the value lies within both bounds.
[[nodiscard]] std::string outside(const char* option, std::uint64_t value, std::uint64_t least,
                                  std::uint64_t most);

/// The command line was answered (--help) or refused: leave with this status.
struct Answered {
  int status;
};

/// Throws Answered, having printed why. Sets the VERBENA_* variables that the faults, --pcap,
/// --trace and --stats stand for: call it before the first verb.
[[nodiscard]] Options parse(int argc, char** argv, const Defaults& defaults);

}  // namespace lab
