// Lab: rendezvous
//
// Learn: N ranks that meet without anybody in the middle. WRITE_WITH_IMM carries data and the
//        word "it is there" in one request; a barrier needs only the word, a ring allreduce both.
// Run:   verbena lab rendezvous --ranks 4              all of them on this machine
//        mpirun -n 4 verbena lab rendezvous            (or srun, or torchrun)
//        verbena lab rendezvous --ranks 2 --rank 0 | … --ranks 2 --rank 1 --root HOST
// Try:   --ranks 7 --size 10M --iters 10

#include <algorithm>
#include <atomic>
#include <chrono>

#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/rendezvous/collectives.h"

namespace {

using Clock = std::chrono::steady_clock;

/// Small whole numbers: floats add them exactly, in any order.
float part_of(unsigned rank, std::size_t i) {
  return static_cast<float>(rank + 1) * static_cast<float>(i % 1000 + 1);
}
float sum_of(unsigned ranks, std::size_t i) {
  const unsigned factors = ranks * (ranks + 1) / 2;  // 1 + 2 + … + ranks
  return static_cast<float>(factors) * static_cast<float>(i % 1000 + 1);
}

/// 3. Everybody writes the number of this barrier into its cell at all the others, and only then
///    enters. So whoever is out finds the number in every cell, or the barrier is none.
void check_barrier(lab::Links& links, const lab::Rank& me, const rdma::Buffer& memory,
                   std::uint32_t generation) {
  const auto cells = memory.as<std::uint64_t>();
  const std::size_t own = me.number * sizeof(std::uint64_t);
  cells[me.number] = generation;
  for (unsigned rank = 0; rank < me.count; ++rank) {
    if (rank == me.number) continue;
    const rdma::RemoteBuffer cell = links.memory_of(rank).slice(own, sizeof(std::uint64_t));
    links.post(rank, rdma::Write{memory.slice(own, sizeof(std::uint64_t)), cell});
  }
  for (unsigned rank = 0; rank < me.count; ++rank) {
    if (rank != me.number) links.finish(rank);
  }
  barrier(links, me, generation);
  for (unsigned rank = 0; rank < me.count; ++rank) {
    const std::uint64_t found = std::atomic_ref{cells[rank]}.load(std::memory_order_acquire);
    lab::check(found >= generation, "left barrier {}, but rank {} is still before it, at {}",
               generation, rank, found);
  }
}

/// 4. The sum of everybody's vector, at everybody. Returns the seconds it took.
double check_allreduce(lab::Links& links, const lab::Rank& me, const rdma::Buffer& memory,
                       const Board& board, std::uint32_t generation) {
  float* const vector = reinterpret_cast<float*>(memory.data() + board.vector_at);
  for (std::size_t i = 0; i < board.count; ++i) vector[i] = part_of(me.number, i);
  barrier(links, me, generation);  // nobody writes to a board that isn't set up
  const auto start = Clock::now();
  allreduce(links, me, memory, board);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::size_t i = 0; i < board.count; ++i) {
    lab::check(vector[i] == sum_of(me.count, i), "element {} is {}, the sum is {}", i, vector[i],
               sum_of(me.count, i));
  }
  return seconds;
}

void body(const lab::Options& options, const lab::Rank& me) {
  // 1. Meet: by TCP, at rank 0, to learn where the others are. It is the only thing TCP does.
  lab::Meeting meeting{options, me};
  lab::Links links{options, meeting};

  // 2. Memory that the others may write to, and a queue pair to each of them.
  const Board board{(options.size + sizeof(float) - 1) / sizeof(float), me.count};
  const rdma::Buffer memory{links.pd(), board.size, rdma::Access::remote_write};
  links.connect(meeting, memory.remote());
  lab::say("{} ranks, as {} says; this one is reached at {}", me.count, me.from,
           meeting.address().to_string());

  lab::Work work;
  std::uint32_t generation = 0;
  double best = 0;
  for (const std::uint64_t i : lab::Rounds{options.iters, me.number == 0}) {
    check_barrier(links, me, memory, ++generation);
    const double seconds = check_allreduce(links, me, memory, board, ++generation);
    best = i == 0 ? seconds : std::min(best, seconds);
  }

  work.done();
  // 5. Nobody leaves before all are through: a queue pair that is gone acknowledges nothing.
  meeting.barrier();
  if (me.number != 0) return;
  const double sent = 2.0 * (me.count - 1) / me.count * static_cast<double>(board.count) * 4;
  lab::say("{} barriers held, {} sums of {} floats right; the fastest took {:.3f} ms", generation,
           options.iters, board.count, best * 1e3);
  lab::shown("{} ranks: a barrier holds, a ring allreduce is right; {:.0f} bytes sent by each",
             me.count, sent);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run_ranks(argc, argv,
                        {.name = "rendezvous",
                         .idea = "N ranks meet by WRITE_WITH_IMM: a barrier, then a ring allreduce",
                         .size = 1 << 20,
                         .iters = 3},
                        {.usual = 4}, body);
}
