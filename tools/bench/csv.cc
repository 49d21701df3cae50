#include "tools/bench/csv.h"

#include <fmt/format.h>

#include <set>

namespace verbena::bench {
namespace {

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? std::string{"\"\""} : std::string(1, c);
  return result + "\"";
}

}  // namespace

std::string csv_of(const Results& results) {
  std::string text =
      "id,transport,test,operation,service,completion,wire,size,depth,queue_pairs,loss_percent,"
      "figure,median,low,high,rounds\r\n";
  for (const Measured& one : results.measured) {
    std::set<std::string> figures;
    for (const auto& round : one.rounds) {
      if (!round) continue;
      for (const auto& [name, value] : round->figures) figures.insert(name);
    }
    const Spec& spec = one.spec;
    for (const std::string& figure : figures) {
      const Interval interval = *one.interval(figure);
      text +=
          fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", quoted(id_of(spec)),
                      spec.transport, spec.test, spec.operation, spec.service, spec.completion,
                      spec.wire, spec.size, spec.depth, spec.queue_pairs, spec.loss_percent, figure,
                      interval.median, interval.low, interval.high, interval.rounds);
    }
  }
  return text;
}

}  // namespace verbena::bench
