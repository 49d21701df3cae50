#pragma once

// What one round of a measurement found.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/bench/histogram.h"

namespace verbena::bench {

/// The figures by their names, which have the unit: gb_per_s, p50_us, sender_cpu_s_per_gb, …
struct Sample {
  std::map<std::string, double> figures{};
  Histogram times{};  // of a latency
};

void to_json(nlohmann::json& json, const Sample& sample);
/// Throws nlohmann::json::exception.
void from_json(const nlohmann::json& json, Sample& sample);

}  // namespace verbena::bench
