#include "tools/bench/columns.h"

#include <algorithm>

namespace verbena::bench {
namespace {

enum class Kind : std::uint8_t { latency, loss, queue_pairs, bandwidth };

Kind kind_of(const Spec& spec) {
  if (spec.test == "latency") return Kind::latency;
  if (spec.loss_percent > 0) return Kind::loss;
  return spec.queue_pairs > 1 ? Kind::queue_pairs : Kind::bandwidth;
}

std::function<bool(const Spec&)> is(Kind kind) {
  return [kind](const Spec& spec) { return kind_of(spec) == kind; };
}

std::vector<Column> stream_columns() {
  return {{"GB/s", "gb_per_s"},
          {"10⁶ messages/s", "messages_per_s", 1e-6},
          {"CPU s/GB, sender", "sender_cpu_s_per_gb"},
          {"receiver", "receiver_cpu_s_per_gb"}};
}

std::vector<Section> make_sections() {
  auto lossy = stream_columns();
  lossy.erase(lossy.begin() + 1);
  lossy.push_back({"resent, %", "resent_percent"});
  return {{"Bandwidth", stream_columns(), is(Kind::bandwidth)},
          {"Queue pairs", stream_columns(), is(Kind::queue_pairs)},
          {"Loss", lossy, is(Kind::loss)},
          {"Latency, µs",
           {{"p50", "p50_us"},
            {"p99", "p99_us"},
            {"p99.9", "p999_us"},
            {"max", "max_us"},
            {"mean", "mean_us"}},
           is(Kind::latency)}};
}

}  // namespace

const std::vector<Section>& sections() {
  static const std::vector<Section> all = make_sections();
  return all;
}

const Measured* tcp_beside(const Results& results, const Spec& spec) {
  const auto found = std::ranges::find_if(results.measured, [&](const Measured& one) {
    return one.spec.transport == "tcp" && one.spec.test == spec.test &&
           one.spec.size == spec.size &&
           (spec.test == "bandwidth" || one.spec.completion == spec.completion);
  });
  return found == results.measured.end() ? nullptr : &*found;
}

double coverage_of_rounds(unsigned rounds) {
  return rounds == 0 ? 0 : interval_of(std::vector<double>(rounds, 1.0)).coverage;
}

}  // namespace verbena::bench
