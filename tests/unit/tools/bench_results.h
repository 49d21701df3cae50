#pragma once

// Made-up results of `verbena bench`.

#include <vector>

#include "tools/bench/results.h"

namespace verbena::bench {

/// A measurement of which one figure has these values, round by round.
inline Measured measured(Spec spec, const std::string& figure, const std::vector<double>& values) {
  Measured one{.spec = std::move(spec)};
  for (const double value : values) {
    one.rounds.emplace_back(Sample{.figures = {{figure, value}}});
  }
  return one;
}

inline Spec stream(const std::string& transport, std::uint64_t size = 65536) {
  Spec spec{.transport = transport, .size = size};
  if (transport != "rdma") spec.operation = spec.service = spec.wire = "", spec.depth = 1;
  return spec;
}

inline Spec latency(const std::string& transport) {
  Spec spec = stream(transport, 64);
  spec.test = "latency";
  spec.depth = 1;
  if (transport == "rdma") spec.operation = "send";
  return spec;
}

inline Results results(std::vector<Measured> list, unsigned rounds = 6) {
  return {.plan = "made-up",
          .rounds = rounds,
          .seconds = 0.1,
          .machine = {{"processor", "a \"CPU\" </script>"},
                      {"cpus", "2"},
                      {"cores", "2"},
                      {"kernel", "Linux"},
                      {"load_before", "0.50"},
                      {"load_after", "0.60"}},
          .measured = std::move(list)};
}

}  // namespace verbena::bench
