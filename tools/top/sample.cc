#include "tools/top/sample.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

namespace verbena::top {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kOurPrefix = "vb_";

Port port_of(const json& j) {
  return {.device = j.at("device"),
          .number = j.at("port"),
          .queue_pairs = j.at("queue_pairs"),
          .by_shm = j.at("connections").at("shm"),
          .by_udp = j.at("connections").at("udp"),
          .counters = j.at("counters").get<Counters>(),
          .hardware = j.at("hw_counters").get<Counters>()};
}

std::optional<Queue> completions_of(const json& j) {
  if (j.is_null()) return std::nullopt;
  return Queue{j.at("entries"), j.at("waiting")};
}

QueuePair queue_pair_of(const json& j) {
  const json& send = j.at("send_queue");
  const json& receive = j.at("receive_queue");
  return {.number = j.at("qp"),
          .service = j.at("service"),
          .state = j.at("state"),
          .device = j.at("device"),
          .peer = j.at("peer"),
          .peer_number = j.at("peer_qp"),
          .way = j.at("way"),
          .why = j.at("why"),
          .send = {send.at("entries"), send.at("posted")},
          .in_flight = send.at("in_flight"),
          .completed = send.at("completed"),
          .receive = {receive.at("entries"), receive.at("posted")},
          .shared_receive = receive.at("shared"),
          .send_completions = completions_of(j.at("send_cq")),
          .receive_completions = completions_of(j.at("receive_cq")),
          .counters = j.at("counters").get<Counters>()};
}

Process process_of(const json& found) {
  Process process{.pid = found.at("pid"), .program = {}, .answers = found.at("answers")};
  if (!process.answers) {
    process.program = found.at("program");
    process.stopped = found.at("stopped");
    return process;
  }
  const json& statistics = found.at("statistics");
  process.program = statistics.at("program");
  for (const json& port : statistics.at("ports")) process.ports.push_back(port_of(port));
  process.unlisted = statistics.at("qps_unlisted");
  const auto add = [&](const json& listed) {
    for (const json& pair : listed) process.queue_pairs.push_back(queue_pair_of(pair));
  };
  add(statistics.at("qps"));
  for (const json& part : found.at("parts")) {
    process.unlisted -= std::min<std::uint64_t>(process.unlisted, part.at("qps").size());
    add(part.at("qps"));
  }
  return process;
}

/// nullopt: it can't be read, or holds no number.
std::optional<std::uint64_t> read_number(const fs::path& path) {
  std::ifstream file{path};
  std::string word;
  if (!(file >> word)) return std::nullopt;
  std::uint64_t value = 0;
  const auto [rest, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem != std::errc{} || rest != word.data() + word.size()) return std::nullopt;
  return value;
}

/// By name; none if the folder can't be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code problem;
  for (fs::directory_iterator it{folder, problem}, end; !problem && it != end;
       it.increment(problem)) {
    entries.push_back(it->path());
  }
  std::ranges::sort(entries);
  return entries;
}

Counters read_counters(const fs::path& folder) {
  Counters counters;
  for (const fs::path& file : entries_of(folder)) {
    if (file.filename() == "lifespan") continue;  // an option of the driver
    if (const auto value = read_number(file)) counters.emplace(file.filename(), *value);
  }
  return counters;
}

}  // namespace

std::uint64_t value_of(const Counters& counters, std::string_view name) {
  const auto found = counters.find(name);
  return found != counters.end() ? found->second : 0;
}

std::vector<Process> processes_of(const json& activity) {
  std::vector<Process> processes;
  for (const json& found : activity) processes.push_back(process_of(found));
  std::ranges::sort(processes, {}, &Process::pid);
  return processes;
}

std::vector<Port> read_kernel_ports(const fs::path& folder) {
  std::vector<Port> ports;
  for (const fs::path& device : entries_of(folder)) {
    const std::string name = device.filename();
    if (name.starts_with(kOurPrefix)) continue;
    for (const fs::path& path : entries_of(device / "ports")) {
      const std::string digits = path.filename();
      unsigned number = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      ports.push_back({.device = name,
                       .number = number,
                       .counters = read_counters(path / "counters"),
                       .hardware = read_counters(path / "hw_counters")});
    }
  }
  return ports;
}

}  // namespace verbena::top
