#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "labs/common/exit_status.h"
#include "labs/common/home_address.h"
#include "labs/common/play.h"
#include "labs/common/process.h"
#include "labs/common/ranks.h"
#include "rdma++/tcp_bootstrap.h"

namespace lab {
namespace {

struct Wanted {
  std::optional<unsigned> count;
  std::optional<unsigned> number;
  std::string root;
};

void add_rank_options(OwnOptions& own, Wanted& wanted, RankCount counts) {
  own.number("--ranks", wanted.count, {counts.least, kMostRanks},
             fmt::format("How many; without --rank all of them here [{}, or what mpirun, srun or "
                         "torchrun says]",
                         counts.usual));
  own.number("--rank", wanted.number, {0, kMostRanks - 1},
             "Be this one only; the others are started elsewhere");
  own.needs("--rank", "--ranks");
  own.text("--root", wanted.root, "Where rank 0 is reached", "HOST");
}

/// Thrown for what is refused before anything starts.
struct Usage {
  std::string problem;
};

/// Which one this process is; nullopt: all of them are to be started here.
std::optional<Rank> this_rank(const Wanted& wanted, unsigned least) {
  std::optional<Rank> rank;
  if (wanted.number) {
    if (*wanted.number >= *wanted.count) {
      throw Usage{fmt::format("--rank {}: the ranks of --ranks {} are 0 to {}", *wanted.number,
                              *wanted.count, *wanted.count - 1)};
    }
    rank = Rank{.number = *wanted.number, .count = *wanted.count, .from = "--rank"};
  } else if (!wanted.count) {
    rank = rank_from([](const char* name) -> std::optional<std::string> {
      const char* const value = std::getenv(name);
      return value != nullptr ? std::optional<std::string>{value} : std::nullopt;
    });
  }
  if (rank && rank->count < least) {
    throw Usage{fmt::format("{} says there are {} ranks; this lab needs {}", rank->from,
                            rank->count, least)};
  }
  if (rank && !wanted.root.empty()) rank->root = wanted.root;
  if (rank && rank->root.empty() && rank->number > 0) {
    throw Usage{"where is rank 0? Give --root HOST, an address that every rank reaches"};
  }
  return rank;
}

int play_rank(RankBody body, const Options& options, const Rank& rank) {
  end_at_timeout(options.timeout);
  return play([&](const Options& o) { body(o, rank); }, options,
              fmt::format("rank {}", rank.number));
}

/// Every rank a child of its own. Its first verb comes after the fork. Rank 0 listens from before
/// it, on any free port unless --port names one: the usual one may be somebody else's.
std::vector<Process> start_all(RankBody body, const Options& options, Rank rank) {
  auto listener =
      std::make_shared<rdma::TcpListener>(options.port_given ? options.port : std::uint16_t{0});
  rank.port = listener->port();
  std::vector<Process> ranks;
  for (rank.number = 0; rank.number < rank.count; ++rank.number) {
    rank.listener = rank.number == 0 ? std::move(listener) : nullptr;
    ranks.emplace_back([&] { return play_rank(body, options, rank); });
  }
  return ranks;
}

/// The first status that isn't 0 is the lab's; the others then needn't wait for that rank.
int reap_all(std::vector<Process> ranks) {
  int result = 0;
  while (!ranks.empty()) {
    const auto ended = ranks.begin() + static_cast<std::ptrdiff_t>(Process::wait_for_any(ranks));
    const int status = ended->wait();
    std::vector<Process> others;
    for (auto one = ranks.begin(); one != ranks.end(); ++one) {
      if (one != ended) others.push_back(std::move(*one));
    }
    ranks.swap(others);
    if (status == 0 || result != 0) continue;
    const std::string signal = signal_in(status);
    if (!signal.empty()) fmt::print(stderr, "a rank: {}\n", signal);
    result = signal.empty() ? status : kFailed;
    for (const Process& one : ranks) one.end();
  }
  return result;
}

}  // namespace

int run_ranks(int argc, char** argv, Defaults defaults, RankCount counts, RankBody body) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Wanted wanted;
  defaults.two_ends = false;
  defaults.more = [&wanted, counts, own = defaults.more](OwnOptions& options) {
    add_rank_options(options, wanted, counts);
    if (own) own(options);
  };
  try {
    const Options options = parse(argc, argv, defaults);
    if (const auto rank = this_rank(wanted, counts.least)) return play_rank(body, options, *rank);
    const Rank all{.count = wanted.count.value_or(counts.usual),
                   .root = wanted.root.empty() ? home_address(options) : wanted.root,
                   .from = "this machine"};
    std::fflush(stdout);
    return reap_all(start_all(body, options, all));
  } catch (const Answered& answered) {
    return answered.status;
  } catch (const Usage& usage) {
    fmt::print(stderr, "{}: {}\n", defaults.name, usage.problem);
  } catch (const BadEnvironment& problem) {
    fmt::print(stderr, "{}: {}; --ranks ignores what a launcher says\n", defaults.name,
               problem.what());
  } catch (const std::runtime_error& failure) {
    fmt::print(stderr, "{}: {}\n", defaults.name, failure.what());
    return kFailed;
  }
  return kUsage;
}

}  // namespace lab
