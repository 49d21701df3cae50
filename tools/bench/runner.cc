#include "tools/bench/runner.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/bench/child.h"

namespace verbena::bench {
namespace {

using nlohmann::json;

/// What the device of a program counts; it writes that down when the program ends.
class DeviceCounters {
 public:
  DeviceCounters() : fd_{memfd_create("counters", 0)} {
    if (fd_ < 0) throw RoundFailed{fmt::format("memfd_create: {}", std::strerror(errno))};
  }
  DeviceCounters(const DeviceCounters&) = delete;
  DeviceCounters& operator=(const DeviceCounters&) = delete;
  ~DeviceCounters() { close(fd_); }

  [[nodiscard]] std::pair<std::string, std::string> variable() const {
    return {"VERBENA_STATS", fmt::format("/proc/self/fd/{}", fd_)};
  }
  /// Packets that were sent again, in percent of all that were sent.
  [[nodiscard]] std::optional<double> resent_percent() const {
    const auto ports = json::parse(text(), nullptr, /*allow_exceptions=*/false);
    double sent = 0, again = 0;
    try {
      for (const json& port : ports.at("ports")) {
        sent += port.at("hw_counters").at("sent_pkts").get<double>();
        again += port.at("hw_counters").at("retransmitted_pkts").get<double>();
      }
    } catch (const json::exception&) {
      return std::nullopt;
    }
    return sent > 0 ? std::optional{100 * again / sent} : std::nullopt;
  }

 private:
  [[nodiscard]] std::string text() const {
    std::string all;
    std::array<char, 4096> piece{};
    for (;;) {
      const ssize_t n = pread(fd_, piece.data(), piece.size(), static_cast<off_t>(all.size()));
      if (n <= 0) return all;
      all.append(piece.data(), static_cast<std::size_t>(n));
    }
  }

  int fd_;
};

std::string words_of(const ChildResult& child) {
  const std::string errors = child.errors.substr(0, child.errors.find_last_not_of('\n') + 1);
  if (child.status == ChildResult::kLate) return "it didn't end in time " + errors;
  return fmt::format("exit status {}: {}", child.status, errors.empty() ? "no message" : errors);
}

std::vector<std::string> command_of(const Spec& spec, const Surroundings& where) {
  std::vector<std::string> command{where.folder + "/ends"};
  if (!where.device.empty()) command.insert(command.end(), {"--device", where.device});
  if (where.host.empty()) {
    command.emplace_back("here");
  } else {
    command.insert(command.end(), {"drive", where.host, std::to_string(where.port)});
  }
  command.push_back(json(spec).dump());
  return command;
}

Round run_ends(const Spec& spec, const Surroundings& where) {
  constexpr double kPatience = 40;  // seconds for set-up and a peer that is slow
  std::optional<DeviceCounters> counters;
  Environment environment;
  if (spec.loss_percent > 0) environment.push_back(counters.emplace().variable());
  const auto limit =
      std::chrono::milliseconds{static_cast<int>(1000 * (kPatience + 3 * spec.seconds))};
  const ChildResult child = run_to_end(command_of(spec, where), environment, limit, where.stop);
  const json said = json::parse(child.output, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) throw RoundFailed{words_of(child)};
  if (said.contains("unreachable")) throw NobodyThere{said["unreachable"].get<std::string>()};
  if (said.contains("skipped")) throw NotHere{said["skipped"].get<std::string>()};
  if (said.contains("failed")) throw RoundFailed{said["failed"].get<std::string>()};
  Round round{said.at("sample").get<Sample>(), {}};
  for (const json& device : said.at("devices")) {
    if (!device.get<std::string>().empty()) round.devices.push_back(device.get<std::string>());
  }
  if (counters) {
    if (const auto again = counters->resent_percent()) {
      round.sample.figures["resent_percent"] = *again;
    }
  }
  return round;
}

}  // namespace

Round run_round(const Spec& spec, const Surroundings& where) {
  if (spec.transport == "ucx") return {run_ucx(spec)};
  if (spec.transport == "libfabric") return {run_libfabric(spec)};
  if (spec.transport == "rdma" || spec.transport == "tcp" || spec.transport == "udp") {
    return run_ends(spec, where);
  }
  return {run_limit(spec, where)};
}

}  // namespace verbena::bench
