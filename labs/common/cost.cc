#include "labs/common/cost.h"

#include <fmt/format.h>

#include <mutex>

namespace lab {
namespace {

std::mutex mutex;  // labs with many clients have a thread for each
std::optional<Cost> total;

void add(std::optional<std::uint64_t>& sum, const std::optional<std::uint64_t>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

}  // namespace

Cost& Cost::operator+=(const Cost& more) {
  completions += more.completions;
  spent = spent + more.spent;
  add(known.round_trips, more.known.round_trips);
  add(known.needed, more.known.needed);
  add(known.copied, more.known.copied);
  return *this;
}

Cost Work::done(const Known& known) {
  const Cost cost{rdma::completions_taken - taken_, spent_by_thread() - before_, known};
  add_cost(cost);
  return cost;
}

void add_cost(const Cost& cost) {
  const std::scoped_lock lock{mutex};
  if (!total) total.emplace();
  *total += cost;
}

std::string cost_of_work() {
  const std::scoped_lock lock{mutex};
  if (!total) return "";
  std::string text = fmt::format("completions taken: {}", total->completions);
  if (total->known.needed) text += fmt::format(", needed: {}", *total->known.needed);
  if (total->known.round_trips) text += fmt::format("; round trips: {}", *total->known.round_trips);
  if (total->known.copied) text += fmt::format("; bytes copied: {}", *total->known.copied);
  return text + fmt::format("; wake-ups: {}; CPU of the program's own threads: {:.2f} ms",
                            total->spent.wake_ups, total->spent.cpu.count() / 1e3);
}

}  // namespace lab
