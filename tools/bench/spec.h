#pragma once

// What one measurement does: a point of a plan. Both ends get it, also over the network.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace verbena::bench {

struct Spec {
  std::string transport = "rdma";      // kTransports
  std::string test = "bandwidth";      // "bandwidth" or "latency"
  std::string operation = "write";     // RDMA: "write", "read", "send"; otherwise ""
  std::string service = "RC";          // RDMA: "RC", "UC", "UD"; otherwise ""
  std::string completion = "polling";  // or "events": the program sleeps until something comes
  std::string wire = "auto";           // RDMA: VERBENA_WIRE; otherwise ""
  std::uint64_t size = 65536;          // bytes of a message
  std::uint32_t depth = 64;            // requests in flight on each queue pair
  std::uint32_t queue_pairs = 1;
  double loss_percent = 0;  // frames that the sender's device loses on purpose
  double seconds = 0.1;     // one round; a tenth of it more to warm up

  bool operator==(const Spec&) const = default;
};

/// All but the time: names the same measurement in every run. "rdma bandwidth write RC 65536 B …"
[[nodiscard]] std::string id_of(const Spec& spec);

/// For a person: "WRITE RC 64 KiB, 8 queue pairs".
[[nodiscard]] std::string title_of(const Spec& spec);

/// "64 KiB"
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// What is wrong with it, with the next step; empty: it can be measured. A spec may come from the
/// network.
[[nodiscard]] std::string problem_of(const Spec& spec);

/// Measures a program that contains nothing of Verbena: it tells how the machine itself was.
[[nodiscard]] bool is_control(const Spec& spec);

void to_json(nlohmann::json& json, const Spec& spec);
/// Throws nlohmann::json::exception.
void from_json(const nlohmann::json& json, Spec& spec);

}  // namespace verbena::bench
