#include "labs/common/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace lab {
namespace {

/// A launcher by its variables. Inner ones come first: a batch job of Slurm sets its own for
/// everything that is started inside, by mpirun too.
struct Launcher {
  const char* name;
  const char* rank;
  const char* count;
};
constexpr std::array kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE"},
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"PMI", "PMI_RANK", "PMI_SIZE"},
    // srun's step, not SLURM_NTASKS: a batch script has that, too, and is no rank.
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

unsigned number_in(const char* name, const std::string& text, unsigned most) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > most) {
    throw BadEnvironment{fmt::format("{}=\"{}\": must be a number up to {}", name, text, most)};
  }
  return value;
}

/// Whether all ranks are on this machine, as far as the variables tell.
bool all_are_here(const Environment& environment, const std::string& count) {
  for (const char* local : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"}) {
    if (const auto value = environment(local)) return *value == count;
  }
  return environment("SLURM_NNODES") == "1" || environment("SLURM_STEP_NUM_NODES") == "1";
}

/// Of "gpu[07-09,12]-ib,login": "gpu07-ib".
std::string first_node(std::string_view list) {
  std::string name;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      name += list[i];
      continue;
    }
    const auto close = std::min(list.find(']', i), list.size());
    const auto range = list.substr(i + 1, close - i - 1);
    name += range.substr(0, range.find_first_of("-,"));
    i = close;
  }
  return name;
}

void find_root(Rank& rank, const Environment& environment, const std::string& count) {
  if (const auto address = environment("MASTER_ADDR")) {
    rank.root = *address;
    // torchrun's own agent may listen on that port itself; then it isn't ours to use.
    const bool taken = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    const auto port = environment("MASTER_PORT");
    if (port && !taken) {
      rank.port = static_cast<std::uint16_t>(number_in("MASTER_PORT", *port, 65535));
    }
  } else if (all_are_here(environment, count)) {
    rank.root = "127.0.0.1";
  } else if (const auto nodes = environment("SLURM_STEP_NODELIST")) {
    rank.root = first_node(*nodes);  // where srun puts rank 0, wherever srun itself runs
  }
}

}  // namespace

std::optional<Rank> rank_from(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const auto number = environment(launcher.rank);
    const auto count = environment(launcher.count);
    if (!number || !count) continue;
    Rank rank{.count = number_in(launcher.count, *count, kMostRanks), .from = launcher.name};
    if (rank.count == 0)
      throw BadEnvironment{fmt::format("{}=0: there are no ranks", launcher.count)};
    rank.number = number_in(launcher.rank, *number, rank.count - 1);
    find_root(rank, environment, *count);
    return rank;
  }
  return std::nullopt;
}

}  // namespace lab
