// `verbena stat`: what the processes that use our devices are doing.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "settings/settings.h"
#include "tools/top/terminal.h"
#include "tools/verbena/commands.h"
#include "tools/verbena/library_view.h"

namespace verbena::tool {
namespace {

using nlohmann::json;

constexpr auto kRow =
    "{:>8} {:<16} {:<12} {:>5} {:>5} {:>5} {:>12} {:>14} {:>12} {:>14} {:>10} {:>7}\n";

/// One process: the statistics that it sent, with the pid that we see.
json process_of(const json& found) {
  if (!found.at("answers")) return found;
  json process = found.at("statistics");
  process["pid"] = found.at("pid");
  process["answers"] = true;
  // Its queue pairs one by one are for --stats.
  process.erase("qps");
  process.erase("qps_unlisted");
  return process;
}

json processes() {
  auto all = json::array();
  for (const json& found : read_library_file("processes")) all.push_back(process_of(found));
  return all;
}

std::string pid_text(const json& process) {
  const auto pid = process.at("pid").get<int>();
  return pid == 0 ? "?" : std::to_string(pid);
}

/// A program's name may hold control characters; a terminal must not obey them.
std::string program_text(const json& process) {
  auto name = process.at("program").get<std::string>();
  std::ranges::replace_if(
      name, [](unsigned char c) { return c < ' ' || c >= 0x7f; }, '?');
  return name;
}

/// The sum of all error counters: --json and --stats have each by its name.
std::uint64_t errors_of(const json& counters, const json& hardware) {
  return counters.value("port_rcv_errors", std::uint64_t{0}) +
         counters.value("port_xmit_discards", std::uint64_t{0}) +
         hardware.at("send_err").get<std::uint64_t>() +
         hardware.at("cq_overruns").get<std::uint64_t>();
}

void print_port(const json& process, const json& port) {
  const json& counters = port.at("counters");
  const json& hardware = port.at("hw_counters");
  const auto count = [&](const char* name) { return counters.value(name, std::uint64_t{0}); };
  const auto connections = [&](const char* way) {
    return port.at("connections").at(way).get<std::uint64_t>();
  };
  fmt::print(kRow, pid_text(process), program_text(process), port.at("device").get<std::string>(),
             port.at("queue_pairs").get<std::uint64_t>(), connections("shm"), connections("udp"),
             count("port_xmit_packets"), 4 * count("port_xmit_data"), count("port_rcv_packets"),
             4 * count("port_rcv_data"), hardware.at("retransmitted_pkts").get<std::uint64_t>(),
             errors_of(counters, hardware));
}

void print_process(const json& process) {
  if (!process.at("answers")) {
    fmt::print("{:>8} {:<16} {}\n", pid_text(process), program_text(process),
               process.at("stopped") ? "stopped, so it doesn't answer" : "too busy to answer");
    return;
  }
  if (process.at("ports").empty()) {
    fmt::print(kRow, pid_text(process), program_text(process), "-", 0, 0, 0, 0, 0, 0, 0, 0, 0);
  }
  for (const json& port : process.at("ports")) print_port(process, port);
}

void print_table(const json& all) {
  fmt::print(kRow, "PID", "PROGRAM", "DEVICE", "QPS", "SHM", "UDP", "SENT", "SENT BYTES",
             "RECEIVED", "RECEIVED BYTES", "SENT AGAIN", "ERRORS");
  for (const json& process : all) print_process(process);
  if (all.empty()) fmt::print("none of your processes uses a device in this network namespace\n");
}

void show(const StatOptions& options) {
  const json all = processes();
  if (options.json) {
    fmt::print("{}\n", options.watch > 0 ? all.dump() : all.dump(2));
  } else {
    if (options.watch > 0) fmt::print("\n");
    print_table(all);
  }
  if (std::fflush(stdout) != 0) throw std::runtime_error{"can't write to standard output"};
}

}  // namespace

int stat(const StatOptions& options, char** argv) {
  const auto problems = settings::read_environment(environ).problems;
  if (!problems.empty()) return fail("stat", kExitUsage, problems.front());
  if (options.watch > 0 && !options.json && top::terminal_problem().empty()) {
    return top({.interval = options.watch}, argv);
  }
  try {
    enter_library_view(argv);
    show(options);
    while (options.watch > 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>{options.watch});
      show(options);
    }
    return 0;
  } catch (const std::exception& error) {
    return fail("stat", kExitFailure, error.what());
  }
}

}  // namespace verbena::tool
