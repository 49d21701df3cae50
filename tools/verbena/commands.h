#pragma once

// The subcommands of `verbena`. Each returns the exit status.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tool {

// As env(1) and nohup(1) have them.
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitRefused = 126;   // found, but it can't be run on our device
inline constexpr int kExitNotFound = 127;  // no such program

/// Says what is wrong with `verbena COMMAND`, and returns the status.
int fail(std::string_view command, int status, std::string_view message);

/// The options of `run` and `env` that are VERBENA_* variables, too.
struct VariableOptions {
  bool only = false;
  // Empty: not given.
  std::string log;
  std::string faults;
  std::string pcap;
  std::string trace;
  std::string stats;  // "true": without a file
  std::string wire;
};

struct RunOptions {
  VariableOptions variables;
  std::vector<std::string> command;
};
/// Returns only when the program could not be started.
int run(const RunOptions& options);

struct EnvOptions {
  VariableOptions variables;
  std::string format = "sh";
};
/// Prints what run() would set.
int env(const EnvOptions& options);

struct TraceOptions {
  std::string output;  // empty: the trace isn't kept
  std::string html;
  std::string faults;
  bool report = false;  // also when the trace is kept
  std::vector<std::string> command;
};
/// Runs the program to its end, and reports what was traced; returns the program's status.
int trace(const TraceOptions& options);

struct ReportOptions {
  std::vector<std::string> files{};
  std::optional<std::uint32_t> qpn{};
  std::optional<double> from{};  // milliseconds
  std::optional<double> to{};
  std::string only{};  // "errors"
  bool states = false;
  bool fold = false;
  bool summary = false;     // without the ladder
  bool requests = false;    // all of them in the summary
  std::size_t lines = 0;    // of each ladder at most; 0: all
  std::size_t ladders = 0;  // at most; 0: all
  bool brief = false;       // the summary without its table
  std::string html{};
  std::string svg{};
};
int report(const ReportOptions& options);

struct DevicesOptions {
  bool json = false;
};
/// `argv` is this process's own: it is executed again, with the preload library.
int devices(const DevicesOptions& options, char** argv);

struct StatOptions {
  bool json = false;
  double watch = 0;  // seconds between two looks; 0: one look
};
/// `argv` as for devices().
int stat(const StatOptions& options, char** argv);

struct TopOptions {
  bool once = false;
  bool json = false;
  double interval = 1;  // seconds between two looks
  std::string view{};   // empty: all, or the first
  std::string sort{};   // title of a column; empty: each view's own
  std::string filter{};
};
/// `argv` as for devices().
int top(const TopOptions& options, char** argv);

struct MetricsOptions {
  std::string listen{};  // empty: prints once
  bool allow_remote = false;
  std::size_t queue_pairs = 256;  // of each process, at most
};
/// `argv` as for devices().
int metrics(const MetricsOptions& options, char** argv);

struct DoctorOptions {
  std::string host{};  // empty: this machine alone
  bool listen = false;
  std::uint16_t port = 4792;
  bool strict = false;
  bool json = false;
  // For its own children:
  bool probe = false;  // connects to `host`
  std::string at{};    // listens at this address alone
};
/// `argv` as for devices().
int doctor(const DoctorOptions& options, char** argv);

/// `words`: what follows `verbena lab`. Returns without running a lab only when it can't.
int lab(const std::vector<std::string>& words);
/// How it is called.
std::string_view lab_usage();

/// Runs `verbena send` or `verbena receive`: the words of `argv` again, in lib/verbena/transfer.
/// `device`: empty if none was named. Returns only when it can't be run.
int transfer(const std::string& device, char** argv);

struct NetnsOptions {
  unsigned mtu = 1500;
  std::string side;                  // "left" or "right"; empty: not given
  std::vector<std::string> command;  // empty: a shell
};
int netns(const NetnsOptions& options);

/// The whole program.
int main_of_verbena(int argc, char** argv);

}  // namespace verbena::tool
