#pragma once

// The options of `verbena bench`.

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace verbena::tool {

struct BenchOptions {
  std::string target;  // "server", a host, or empty: both ends here
  bool quick = false;
  bool full = false;
  unsigned rounds = 0;  // 0: the plan's
  double seconds = 0;
  std::string only;
  std::vector<std::string> sizes;  // "64", "64K", "1M"
  std::vector<std::uint32_t> depths, queue_pairs;
  std::vector<std::string> operations, services, completions;
  std::vector<double> losses;
  std::string device;
  std::uint16_t port = 7474;
  bool list = false;
  std::string json, csv, html;  // files; empty: none
  std::string compare;          // an earlier --json
  bool fail = false;            // exit status 1 if something is slower
};

/// Adds the command to the program's.
CLI::App* add_bench(CLI::App& app, BenchOptions& options);

int bench(const BenchOptions& options);

}  // namespace verbena::tool
