#include "tools/bench/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>

namespace verbena::bench {
namespace {

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr std::uint64_t kSmall = 64;        // of latencies and message rates
constexpr std::uint64_t kLarge = 64 * KiB;  // of everything that isn't plotted against the size
constexpr std::uint64_t kDatagram = KiB;    // fits into a packet of most paths
constexpr std::uint64_t kUdpBatch = 15 * 4 * KiB;

/// What a plan varies.
struct Extent {
  unsigned rounds;
  double seconds;
  double time_limit;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> latency_sizes;
  std::vector<std::uint64_t> limit_sizes;  // of the bare loops
  std::vector<std::uint32_t> depths;       // beside the usual one, at kSmall and kLarge
  std::vector<std::uint32_t> queue_pairs;
  std::vector<double> losses;
  bool others;    // UCX and libfabric
  bool udp_wire;  // also RDMA over UDP between processes of one host
};

Extent extent_of(const std::string& plan) {
  if (plan == "quick") {
    return {.rounds = 6,
            .seconds = 0.08,
            .time_limit = 45,
            .sizes = {kSmall, 4 * KiB, kLarge, MiB},
            .latency_sizes = {kSmall},
            .limit_sizes = {kLarge, MiB},
            .depths = {},
            .queue_pairs = {8, 64},
            .losses = {0.1, 1, 5},
            .others = false,
            .udp_wire = false};
  }
  const bool full = plan == "full";
  if (!full && plan != "normal") throw std::invalid_argument{"there is no plan " + plan};
  Extent extent{.rounds = full ? 15u : 9u,
                .seconds = full ? 0.3 : 0.1,
                .time_limit = 0,
                .sizes = {kSmall, 512, 4 * KiB, 16 * KiB, kLarge, 256 * KiB, MiB, 4 * MiB},
                .latency_sizes = {kSmall, 4 * KiB},
                .limit_sizes = {4 * KiB, kLarge, MiB},
                .depths = {1, 8, 512},
                .queue_pairs = {2, 8, 64, 256},
                .losses = {0.1, 0.5, 1, 2, 5},
                .others = true,
                .udp_wire = true};
  if (full) extent.latency_sizes = {8, kSmall, 512, 4 * KiB, kLarge};
  if (full) extent.limit_sizes = {kSmall, 512, 4 * KiB, 16 * KiB, kLarge, 256 * KiB, MiB, 4 * MiB};
  return extent;
}

/// Measurements of one run; each is there once.
class Builder {
 public:
  explicit Builder(const Extent& extent) : extent_{extent} {}

  void add(Spec spec) {
    if (spec.transport != "rdma") spec.operation = spec.service = spec.wire = "";
    spec.seconds = extent_.seconds;
    if (problem_of(spec).empty() && ids_.insert(id_of(spec)).second) {
      specs_.push_back(std::move(spec));
    }
  }
  [[nodiscard]] std::vector<Spec> take() { return std::move(specs_); }

 private:
  const Extent& extent_;
  std::set<std::string> ids_;
  std::vector<Spec> specs_;
};

constexpr std::string_view kOperations[] = {"write", "send", "read"};

void add_bandwidths(Builder& builder, const Extent& extent, bool one_host) {
  for (const std::uint64_t size : extent.sizes) {
    for (const std::string_view operation : kOperations) {
      builder.add({.operation = std::string{operation}, .size = size});
      if (extent.udp_wire && one_host && size == kLarge) {
        builder.add({.operation = std::string{operation}, .wire = "udp", .size = size});
      }
    }
    builder.add({.transport = "tcp", .size = size, .depth = 1});
  }
  builder.add({.completion = "events", .size = kLarge});
  builder.add({.operation = "send", .completion = "events", .size = kLarge});
  for (const std::string_view service : {"UC", "UD"}) {
    builder.add({.operation = "send", .service = std::string{service}, .size = kDatagram});
  }
  builder.add({.transport = "tcp", .size = kDatagram, .depth = 1});
  builder.add({.service = "UC", .size = kLarge});
  for (const std::uint32_t depth : extent.depths) {
    for (const std::uint64_t size : {kSmall, kLarge}) builder.add({.size = size, .depth = depth});
  }
  for (const std::uint32_t count : extent.queue_pairs) {
    for (const std::uint64_t size : {kSmall, kLarge}) {
      builder.add({.size = size, .queue_pairs = count});
    }
  }
  for (const double percent : extent.losses) {
    builder.add({.size = kLarge, .loss_percent = percent});
  }
}

void add_latencies(Builder& builder, const Extent& extent, bool one_host) {
  for (const std::uint64_t size : extent.latency_sizes) {
    for (const std::string_view operation : kOperations) {
      builder.add(
          {.test = "latency", .operation = std::string{operation}, .size = size, .depth = 1});
    }
    for (const std::string_view service : {"UC", "UD"}) {
      builder.add({.test = "latency",
                   .operation = "send",
                   .service = std::string{service},
                   .size = size,
                   .depth = 1});
    }
    builder.add(
        {.test = "latency", .operation = "send", .completion = "events", .size = size, .depth = 1});
    if (extent.udp_wire && one_host) {
      builder.add(
          {.test = "latency", .operation = "send", .wire = "udp", .size = size, .depth = 1});
    }
    for (const std::string_view completion : {"polling", "events"}) {
      builder.add({.transport = "tcp",
                   .test = "latency",
                   .completion = std::string{completion},
                   .size = size,
                   .depth = 1});
    }
  }
  builder.add({.transport = "udp", .test = "latency", .size = kSmall, .depth = 1});
}

void add_limits(Builder& builder, const Extent& extent) {
  for (const std::uint64_t size : extent.limit_sizes) {
    for (const std::string_view loop : {"memcpy", "ring", "pull"}) {
      builder.add({.transport = std::string{loop}, .size = size, .depth = 1});
    }
  }
  builder.add({.transport = "slot", .test = "latency", .size = kSmall, .depth = 1});
}

void add_others(Builder& builder, const Extent& extent) {
  for (const std::uint64_t size : extent.limit_sizes) {
    builder.add({.transport = "ucx", .size = size, .depth = 1});
  }
  for (const std::string_view library : {"ucx", "libfabric"}) {
    builder.add({.transport = std::string{library}, .test = "latency", .size = kSmall, .depth = 1});
  }
}

template <typename T>
std::vector<T> or_else(const std::vector<T>& wished, std::vector<T> usual) {
  return wished.empty() ? usual : wished;
}

/// Every combination of what the user named, and TCP of the same sizes.
void add_combinations(Builder& builder, const Wishes& wishes) {
  const auto sizes = or_else(wishes.sizes, {kSmall, kLarge});
  const auto operations = or_else<std::string>(wishes.operations, {"write"});
  const auto services = or_else<std::string>(wishes.services, {"RC"});
  const auto completions = or_else<std::string>(wishes.completions, {"polling"});
  for (const std::uint64_t size : sizes) {
    for (const auto& operation : operations) {
      for (const auto& service : services) {
        for (const auto& completion : completions) {
          Spec spec{
              .operation = operation, .service = service, .completion = completion, .size = size};
          for (const std::uint32_t depth : or_else(wishes.depths, {64u})) {
            for (const std::uint32_t count : or_else(wishes.queue_pairs, {1u})) {
              for (const double loss : or_else(wishes.losses, {0.0})) {
                spec.depth = depth;
                spec.queue_pairs = count;
                spec.loss_percent = loss;
                builder.add(spec);
              }
            }
          }
          spec.test = "latency";
          spec.depth = spec.queue_pairs = 1;
          spec.loss_percent = 0;
          builder.add(spec);
        }
      }
    }
    builder.add({.transport = "tcp", .size = size, .depth = 1});
    for (const auto& completion : completions) {
      builder.add({.transport = "tcp",
                   .test = "latency",
                   .completion = completion,
                   .size = size,
                   .depth = 1});
    }
  }
}

bool is_custom(const Wishes& wishes) {
  return !wishes.sizes.empty() || !wishes.depths.empty() || !wishes.queue_pairs.empty() ||
         !wishes.operations.empty() || !wishes.services.empty() || !wishes.completions.empty() ||
         !wishes.losses.empty();
}

void keep_only(std::vector<Spec>& specs, const std::string& pattern) {
  std::regex wanted;
  try {
    wanted = std::regex{pattern, std::regex::icase};
  } catch (const std::regex_error&) {
    throw std::invalid_argument{
        fmt::format("--only: \"{}\" is no regular expression, such as 'write|tcp'", pattern)};
  }
  std::erase_if(specs, [&](const Spec& spec) {
    return !std::regex_search(title_of(spec) + "\n" + id_of(spec), wanted);
  });
}

}  // namespace

Plan make_plan(const Wishes& wishes) {
  Extent extent = extent_of(wishes.plan);
  if (wishes.seconds > 0) extent.seconds = wishes.seconds;
  Builder builder{extent};
  const bool custom = is_custom(wishes);
  if (custom) {
    add_combinations(builder, wishes);
  } else {
    add_bandwidths(builder, extent, wishes.one_host);
    builder.add({.transport = "udp", .size = kUdpBatch, .depth = 1});
    add_latencies(builder, extent, wishes.one_host);
    if (wishes.one_host) add_limits(builder, extent);
    if (wishes.one_host && extent.others) add_others(builder, extent);
  }
  Plan plan{.name = custom ? "custom" : wishes.plan,
            .rounds = wishes.rounds > 0 ? wishes.rounds : extent.rounds,
            .seconds = extent.seconds,
            .time_limit = extent.time_limit,
            .specs = builder.take()};
  if (!wishes.only.empty()) keep_only(plan.specs, wishes.only);
  if (plan.specs.empty()) {
    throw std::invalid_argument{
        "nothing is left to measure; \"verbena bench --list\" shows what a plan has"};
  }
  return plan;
}

}  // namespace verbena::bench
