#include "tools/bench/results_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace verbena::bench {
namespace {

using nlohmann::json;

std::set<std::string> figures_of(const Measured& one) {
  std::set<std::string> names;
  for (const auto& round : one.rounds) {
    if (!round) continue;
    for (const auto& [name, value] : round->figures) names.insert(name);
  }
  return names;
}

/// A round that failed, or lacks the figure, is null.
json rounds_of(const Measured& one, const std::string& figure) {
  json rounds = json::array();
  for (const auto& round : one.rounds) {
    const bool known = round && round->figures.contains(figure);
    rounds.push_back(known ? json(round->figures.at(figure)) : json(nullptr));
  }
  return rounds;
}

json json_of_measured(const Measured& one) {
  json result = one.spec;
  result.erase("seconds");
  result["id"] = id_of(one.spec);
  result["title"] = title_of(one.spec);
  result["figures"] = json::object();
  for (const std::string& name : figures_of(one)) {
    const Interval interval = *one.interval(name);
    result["figures"][name] = {{"median", interval.median},
                               {"low", interval.low},
                               {"high", interval.high},
                               {"coverage", interval.coverage},
                               {"rounds", rounds_of(one, name)}};
  }
  result["histogram_ns"] = json::array();
  for (const auto& [upper, count] : one.times().buckets()) {
    result["histogram_ns"].push_back({upper, count});
  }
  return result;
}

json json_of_absences(const std::vector<Absence>& absences) {
  json list = json::array();
  for (const Absence& one : absences) {
    list.push_back({{"id", id_of(one.spec)}, {"title", title_of(one.spec)}, {"why", one.why}});
  }
  return list;
}

Measured measured_of(const json& object, double seconds) {
  json with_time = object;
  with_time["seconds"] = seconds;
  Measured one{.spec = with_time.get<Spec>()};
  for (const auto& [name, figure] : object.at("figures").items()) {
    const json& rounds = figure.at("rounds");
    one.rounds.resize(std::max(one.rounds.size(), rounds.size()));
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      if (rounds[i].is_null()) continue;
      if (!one.rounds[i]) one.rounds[i].emplace();
      one.rounds[i]->figures[name] = rounds[i].get<double>();
    }
  }
  return one;
}

}  // namespace

json json_of(const Results& results) {
  json all{
      {"schema", kSchema},
      {"plan", {{"name", results.plan}, {"rounds", results.rounds}, {"seconds", results.seconds}}},
      {"machine", results.machine},
      {"host", results.host},
      {"measurements", json::array()},
      {"skipped", json_of_absences(results.skipped)},
      {"failed", json_of_absences(results.failed)}};
  for (const Measured& one : results.measured) {
    all["measurements"].push_back(json_of_measured(one));
  }
  return all;
}

// Histograms stay behind: nothing is computed from those of an earlier run.
Results results_of(const std::string& text, const std::string& name) {
  const auto wrong = [&](const std::string& why) {
    return std::runtime_error{
        fmt::format("{}: {}; name a file that \"verbena bench --json\" wrote", name, why)};
  };
  try {
    const json all = json::parse(text);
    if (!all.is_object() || all.value("schema", "") != kSchema) {
      throw wrong(fmt::format("its schema isn't {}", kSchema));
    }
    const json& plan = all.at("plan");
    Results results{.plan = plan.at("name").get<std::string>(),
                    .rounds = plan.at("rounds").get<unsigned>(),
                    .seconds = plan.at("seconds").get<double>(),
                    .machine = all.at("machine").get<std::map<std::string, std::string>>(),
                    .host = all.at("host").get<std::string>()};
    for (const json& one : all.at("measurements")) {
      results.measured.push_back(measured_of(one, results.seconds));
    }
    return results;
  } catch (const json::exception& error) {
    throw wrong(error.what());
  }
}

}  // namespace verbena::bench
