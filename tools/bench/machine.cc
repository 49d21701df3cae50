#include "tools/bench/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <set>

namespace verbena::bench {
namespace {

/// What the first line of /proc/cpuinfo says that has this name; the fields differ by architecture.
std::string processor() {
  std::ifstream lines{"/proc/cpuinfo"};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name") && !line.starts_with("Hardware")) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

/// A name of the core that a CPU is part of: its list of siblings.
std::string core_of(int cpu) {
  std::ifstream file{
      fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)};
  std::string list;
  return std::getline(file, list) ? list : std::to_string(cpu);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32] = "";
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::vector<int> separate_cores() {
  std::vector<int> chosen;
  std::set<std::string> taken;
  for (const int cpu : allowed_cpus()) {
    if (taken.insert(core_of(cpu)).second) chosen.push_back(cpu);
  }
  return chosen;
}

std::string load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? fmt::format("{:.2f}", load) : "unknown";
}

std::map<std::string, std::string> describe_machine() {
  utsname system{};
  uname(&system);
  return {{"processor", processor()},
          {"cpus", std::to_string(allowed_cpus().size())},
          {"cores", std::to_string(separate_cores().size())},
          {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"name", system.nodename},
          {"started", now()},
          {"load_before", load_average()},
          {"verbena", VERBENA_VERSION}};
}

}  // namespace verbena::bench
