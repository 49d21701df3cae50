#include "tools/bench/sample.h"

#include <nlohmann/json.hpp>

namespace verbena::bench {

void to_json(nlohmann::json& json, const Sample& sample) {
  json = {{"figures", sample.figures}, {"times", nlohmann::json::array()}};
  for (const auto& [upper, count] : sample.times.buckets()) json["times"].push_back({upper, count});
}

void from_json(const nlohmann::json& json, Sample& sample) {
  json.at("figures").get_to(sample.figures);
  for (const auto& bucket : json.at("times")) {
    sample.times.add_bucket(bucket.at(0).get<std::uint64_t>(), bucket.at(1).get<std::uint64_t>());
  }
}

}  // namespace verbena::bench
