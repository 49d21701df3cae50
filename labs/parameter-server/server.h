#pragma once

// Rank 0: steps 2, 3 and 5.

#include <algorithm>
#include <chrono>
#include <span>

#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/parameter-server/layout.h"
#include "labs/parameter-server/training.h"

struct Server {
  const lab::Options& options;
  lab::Links& links;
  Model& model;
  const rdma::Buffer& memory;

  [[nodiscard]] std::span<double> weights() const {
    return memory.as<double>().first(model.features());
  }
  [[nodiscard]] std::span<double> sums() const {
    return memory.as<double>().subspan(model.features());
  }

  [[nodiscard]] Training finished(Training result) const {
    result.weights.assign(weights().begin(), weights().end());
    return result;
  }

  /// 2. What one process gets: the truth that the workers are compared with.
  Training train_alone() {
    std::ranges::fill(weights(), 0.0);
    Training result;
    for (std::uint64_t step = 0; step < options.iters; ++step) {
      for (std::size_t shard = 0; shard < Model::kShards; ++shard) {
        model.compute(shard, weights(),
                      sums().subspan(shard * model.shard_size(), model.shard_size()));
      }
      result.losses.push_back(model.step(weights(), sums()));
    }
    return finished(std::move(result));
  }

  /// 3. The same with workers, who are ranks 1 to `workers`.
  Training train_with(unsigned workers) {
    std::ranges::fill(memory.as<double>(), 0.0);
    Training result;
    for (const std::uint64_t step : lab::rounds(options.iters)) {
      const std::uint32_t word = word_for(workers, step);
      for (unsigned rank = 1; rank <= workers; ++rank) links.tell(rank, word);
      // 5. Nobody reads the weights any more once all have pushed: they have read before.
      for (unsigned rank = 1; rank <= workers; ++rank) links.expect(rank, word);
      result.losses.push_back(model.step(weights(), sums()));
    }
    return finished(std::move(result));
  }
};

inline void serve(Server server, unsigned workers) {
  const auto timed = [](auto train) {
    const auto start = std::chrono::steady_clock::now();
    Training result = train();
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  };
  lab::say(heading(server.options.iters));
  std::uint64_t steps = 0;
  lab::Work work;
  const Training alone = timed([&] { return server.train_alone(); });
  lab::say(row("one process", alone));
  double furthest = 0;
  std::string teams;
  for (const unsigned size : team_sizes(workers)) {
    const Training together = timed([&] { return server.train_with(size); });
    lab::say(row(fmt::format("{} worker{}", size, size == 1 ? "" : "s"), together));
    steps += server.options.iters;
    furthest = std::max(furthest, distance(together, alone));
    teams += fmt::format("{}{}", teams.empty() ? "" : ", ", size);
  }
  work.done({.round_trips = steps});
  // Between machines of different kinds exp() may differ in its last bit; elsewhere it is 0.
  lab::check(furthest < 1e-9, "loss or weights differ from one process's by {:.3g} of their value",
             furthest);
  const double first = alone.losses.front(), last = alone.losses.back();
  lab::check(last <= first, "nothing was learned: the loss is {}, at first it was {}", last, first);
  lab::shown("{} workers train as one process does ({}): loss {:.4f} to {:.4f}", teams,
             furthest == 0 ? "to the last bit" : fmt::format("within {:.1g}", furthest), first,
             last);
}
