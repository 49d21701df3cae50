#pragma once

// Labs of N equal processes: which one of them this is. Launchers tell it in variables, each in
// its own; without a launcher the lab starts all of them on this machine, or --rank says it.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "labs/common/options.h"

namespace rdma {
class TcpListener;
}

namespace lab {

struct Rank {
  unsigned number = 0;
  unsigned count = 1;
  std::string root{};                             // where rank 0 is reached; empty: not known
  std::uint16_t port = 0;                         // of rank 0; 0: --port
  std::shared_ptr<rdma::TcpListener> listener{};  // of rank 0; null: it opens its own
  std::string from{};                             // who said so
};

inline constexpr unsigned kMostRanks = 128;

/// Variables that contradict themselves.
struct BadEnvironment : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The value of a variable; nullopt: it isn't set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// What torchrun, mpirun (Open MPI; or MPICH, Intel and others by PMI) or srun said; nullopt: none
/// of them started us. Throws BadEnvironment.
[[nodiscard]] std::optional<Rank> rank_from(const Environment& environment);

using RankBody = void (*)(const Options&, const Rank&);

struct RankCount {
  unsigned usual = 4;  // when nobody says
  unsigned least = 1;
};

/// A lab of ranks.
int run_ranks(int argc, char** argv, Defaults defaults, RankCount counts, RankBody body);

}  // namespace lab
