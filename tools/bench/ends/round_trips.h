#pragma once

// The times of a latency measurement, and the figures of them.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tools/bench/ends/meter.h"
#include "tools/bench/sample.h"
#include "tools/bench/spec.h"

namespace verbena::bench {

/// Runs `exchange()` until the time of the spec is up, after a tenth of it to warm up. `exchange`
/// returns false if the answer was lost. `parts`: 2 if a time is half of the exchange, 1 if it is
/// all of it.
template <typename Exchange>
[[nodiscard]] Sample measure_round_trips(const Spec& spec, unsigned parts, Exchange&& exchange);

/// Figures and histogram of these times in nanoseconds.
[[nodiscard]] Sample sample_of_times(std::vector<std::uint32_t> nanoseconds);

template <typename Exchange>
Sample measure_round_trips(const Spec& spec, unsigned parts, Exchange&& exchange) {
  constexpr std::size_t kMostTimes = 8'000'000;
  std::vector<std::uint32_t> times;
  times.reserve(1 << 20);
  std::uint64_t lost = 0;
  const auto run_for = [&](double seconds) {
    const auto begin = Clock::now();
    auto now = begin;
    do {
      const bool answered = exchange();
      const auto before = now;
      now = Clock::now();
      if (!answered) {
        ++lost;
        continue;
      }
      const auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(now - before).count();
      const auto time = std::min<std::int64_t>(took / parts, UINT32_MAX);
      if (times.size() < kMostTimes) times.push_back(static_cast<std::uint32_t>(time));
    } while (seconds_between(begin, now) < seconds);
  };
  run_for(spec.seconds / 10);
  times.clear();
  lost = 0;
  const double cpu = cpu_seconds();
  run_for(spec.seconds);
  const double used = cpu_seconds() - cpu;
  const auto answered = static_cast<double>(times.size());
  Sample sample = sample_of_times(std::move(times));
  sample.figures["lost"] = static_cast<double>(lost);
  if (answered > 0) sample.figures["client_cpu_us"] = used * 1e6 / answered;
  return sample;
}

}  // namespace verbena::bench
