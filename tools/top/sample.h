#pragma once

// One look at everything that uses RDMA here: our processes with their ports and queue pairs, and
// the ports of the kernel's devices.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace verbena::top {

/// By the kernel's names.
using Counters = std::map<std::string, std::uint64_t, std::less<>>;

/// 0 if there is no such counter.
[[nodiscard]] std::uint64_t value_of(const Counters& counters, std::string_view name);

struct Port {
  std::string device;
  unsigned number = 1;
  // Of our devices only.
  std::uint64_t queue_pairs = 0;
  std::uint64_t by_shm = 0;
  std::uint64_t by_udp = 0;
  Counters counters{};  // as in sysfs, counters/
  Counters hardware{};  // hw_counters/
};

struct Queue {
  std::uint64_t entries = 0;
  std::uint64_t waiting = 0;
};

struct QueuePair {
  std::uint32_t number = 0;
  std::string service;  // RC, UD, …
  std::string state;
  std::string device;  // empty: it has none yet
  std::string peer;    // address; empty: it has none
  std::uint32_t peer_number = 0;
  std::string way;  // "shm", "udp"; empty: it has no peer
  std::string why;  // not shm
  Queue send{};     // posted, and not complete
  std::uint64_t in_flight = 0;
  std::uint64_t completed = 0;  // send requests, ever
  Queue receive{};
  bool shared_receive = false;
  std::optional<Queue> send_completions{};  // nullopt: it has no such queue
  std::optional<Queue> receive_completions{};
  Counters counters{};  // those that aren't 0
};

struct Process {
  int pid = 0;          // 0: not visible from here
  std::string program;  // valid UTF-8, otherwise as it is
  bool answers = true;
  bool stopped = false;  // of one that doesn't answer
  std::vector<Port> ports{};
  std::vector<QueuePair> queue_pairs{};
  std::uint64_t unlisted = 0;  // further queue pairs
};

struct Sample {
  std::chrono::steady_clock::time_point at{};
  std::chrono::system_clock::time_point wall{};
  std::vector<Process> processes{};
  std::vector<Port> kernel_ports{};  // of hardware and rxe
};

/// `activity`: what the preload library tells. nlohmann::json::exception: it isn't that.
[[nodiscard]] std::vector<Process> processes_of(const nlohmann::json& activity);

/// Of the devices in `folder` (/sys/class/infiniband) that aren't ours. Files that can't be read,
/// or hold no number, are left out.
[[nodiscard]] std::vector<Port> read_kernel_ports(const std::filesystem::path& folder);

}  // namespace verbena::top
