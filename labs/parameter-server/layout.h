#pragma once

// What the server and its workers must agree on: where things lie, whose they are, which word says
// what.

#include <cstdint>
#include <vector>

#include "labs/common/links.h"
#include "labs/parameter-server/model.h"

/// The server's memory: the weights, then what each shard adds up to.
struct Layout {
  explicit Layout(const Model& model)
      : weights{model.features() * sizeof(double)}, shard{model.shard_size() * sizeof(double)} {}
  [[nodiscard]] std::size_t shard_at(std::size_t number) const { return weights + number * shard; }
  [[nodiscard]] std::size_t size() const { return shard_at(Model::kShards); }

  std::size_t weights, shard;  // bytes
};

/// Which shards are whose. With more workers than shards some have none.
[[nodiscard]] inline std::size_t first_shard(unsigned worker, unsigned workers) {
  return Model::kShards * worker / workers;
}

[[nodiscard]] inline std::uint32_t word_for(unsigned workers, std::uint64_t step) {
  return workers << 24 | (static_cast<std::uint32_t>(step) & 0xff'ffff);
}

/// 1, 2, 4, 8, … and all of them.
[[nodiscard]] inline std::vector<unsigned> team_sizes(unsigned workers) {
  std::vector<unsigned> sizes;
  for (unsigned n = 1; n < workers; n *= 2) sizes.push_back(n);
  sizes.push_back(workers);
  return sizes;
}
