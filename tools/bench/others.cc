// Programs that aren't ours to change: the bare loops, and those of UCX and libfabric.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tools/bench/child.h"
#include "tools/bench/machine.h"
#include "tools/bench/runner.h"

namespace verbena::bench {
namespace {

constexpr std::chrono::seconds kLimit{60};
constexpr double kNsPerSmallMessage = 1000;
constexpr double kBytesPerSecond = 10e9;

struct Loop {
  std::string_view transport, program;
};
constexpr Loop kLoops[] = {{"memcpy", "memory_copy"},
                           {"ring", "ring_direct"},
                           {"pull", "pull"},
                           {"slot", "slot_ping_pong"}};

/// Messages that take about the time of the spec.
std::uint64_t messages_of(const Spec& spec) {
  const double each =
      std::max(kNsPerSmallMessage / 1e9, static_cast<double>(spec.size) / kBytesPerSecond);
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(spec.seconds / each), 100, 2'000'000);
}

std::uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  const bool fine = probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                    getsockname(probe, reinterpret_cast<sockaddr*>(&at), &size) == 0;
  if (probe >= 0) close(probe);
  if (!fine) throw RoundFailed{"no free TCP port on 127.0.0.1"};
  return ntohs(at.sin_port);
}

/// These servers take one connection: a look must not be one.
bool is_listening(std::uint16_t port) {
  const std::string wanted = fmt::format(":{:04X} ", port);
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines{table};
    for (std::string line; std::getline(lines, line);) {
      if (line.find(wanted) != std::string::npos && line.find(" 0A ") != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

/// What the client prints: `command` with these options, against a server that is `command` alone.
std::string serve_and_run(const std::vector<std::string>& server,
                          const std::vector<std::string>& client, std::uint16_t port,
                          const Environment& environment) {
  const Background running{server, environment};
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (!is_listening(port)) {
    if (!running.is_running() || std::chrono::steady_clock::now() > until) {
      throw RoundFailed{fmt::format("the server of {} doesn't listen", server.front())};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{5});  // no event tells
  }
  const ChildResult done = run_to_end(client, environment, kLimit);
  if (done.status != 0) {
    throw RoundFailed{fmt::format("{}: exit status {}: {}{}", client.front(), done.status,
                                  done.errors, done.output)};
  }
  running.wait_for_end(std::chrono::seconds{5});
  return done.output;
}

/// The words of the last line that begins with a number.
std::vector<double> last_row(const std::string& text) {
  std::vector<double> row;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::vector<double> found;
    for (std::string word; words >> word;) {
      if (word.starts_with('=')) word.erase(0, 1);  // fi_pingpong: as many as before
      char* end = nullptr;
      const double value = std::strtod(word.c_str(), &end);
      if (end == word.c_str()) break;
      constexpr double kKilo = 1024;  // fi_pingpong writes 64k
      found.push_back(*end == 'k' ? value * kKilo : *end == 'm' ? value * kKilo * kKilo : value);
    }
    if (found.size() > 2) row = found;
  }
  return row;
}

std::string need(const std::string& program, const std::string& package) {
  std::string path = find_in_path(program);
  if (path.empty()) {
    throw NotHere{fmt::format("there is no {} here (Debian: apt install {})", program, package)};
  }
  return path;
}

}  // namespace

Sample run_limit(const Spec& spec, const Surroundings& where) {
  const auto loop = std::ranges::find(kLoops, spec.transport, &Loop::transport);
  const auto cores = separate_cores();
  if (cores.size() < 2) throw NotHere{"it needs two cores, one for each end"};
  const std::string program = fmt::format("{}/{}", where.folder, loop->program);
  if (access(program.c_str(), X_OK) != 0) {
    throw NotHere{fmt::format("{} isn't installed; build or install Verbena again", program)};
  }
  const ChildResult done = run_to_end(
      {program, "--size", std::to_string(spec.size), "--seconds", fmt::format("{:g}", spec.seconds),
       "--cores", fmt::format("{},{}", cores[0], cores[1])},
      {}, kLimit);
  constexpr int kForbidden = 77;  // see bench/limits/limits.h
  if (done.status == kForbidden) throw NotHere{done.errors};
  if (done.status != 0) {
    throw RoundFailed{fmt::format("exit status {}: {}", done.status, done.errors)};
  }
  Sample sample;
  sample.figures = nlohmann::json::parse(done.output).get<std::map<std::string, double>>();
  sample.figures.erase("rounds");
  if (const auto rate = sample.figures.find("gb_per_s"); rate != sample.figures.end()) {
    sample.figures["messages_per_s"] = rate->second * 1e9 / static_cast<double>(spec.size);
  }
  return sample;
}

// Shared memory, as MPI programs use it between processes of one host.
Sample run_ucx(const Spec& spec) {
  const std::string program = need("ucx_perftest", "ucx-utils");
  const std::uint16_t port = free_port();
  const auto messages = messages_of(spec);
  const bool latency = spec.test == "latency";
  std::vector<std::string> command{program,
                                   "-p",
                                   std::to_string(port),
                                   "-f",
                                   "-t",
                                   latency ? "tag_lat" : "tag_bw",
                                   "-s",
                                   std::to_string(spec.size),
                                   "-n",
                                   std::to_string(messages),
                                   "-w",
                                   std::to_string(messages / 10)};
  auto client = command;
  client.emplace_back("127.0.0.1");
  const auto row = last_row(serve_and_run(command, client, port, {{"UCX_TLS", "posix,cma"}}));
  // Iterations; latency: median, average, overall; MB/s: average, overall; messages/s: both.
  constexpr std::size_t kColumns = 8;
  constexpr double kMebi = 1.048576e6;
  if (row.size() != kColumns) throw RoundFailed{"ucx_perftest printed no row of figures"};
  Sample sample;
  if (latency) {
    sample.figures["p50_us"] = row[1];
  } else {
    sample.figures = {{"gb_per_s", row[5] * kMebi / 1e9}, {"messages_per_s", row[7]}};
  }
  return sample;
}

Sample run_libfabric(const Spec& spec) {
  const std::string program = need("fi_pingpong", "libfabric-bin");
  const std::uint16_t port = free_port();
  std::vector<std::string> command{program,
                                   "-p",
                                   "shm",
                                   "-e",
                                   "rdm",
                                   "-S",
                                   std::to_string(spec.size),
                                   "-I",
                                   std::to_string(messages_of(spec) / 4)};
  auto client = command;
  command.insert(command.end(), {"-B", std::to_string(port)});
  client.insert(client.end(), {"-P", std::to_string(port), "127.0.0.1"});
  // bytes, sent, acknowledged, total, time, MB/s, µs for each transfer, million transfers a second
  const auto row = last_row(serve_and_run(command, client, port, {}));
  constexpr std::size_t kMicroseconds = 6;
  if (row.size() <= kMicroseconds) throw RoundFailed{"fi_pingpong printed no row of figures"};
  Sample sample;
  sample.figures["mean_us"] = row[kMicroseconds];
  return sample;
}

}  // namespace verbena::bench
