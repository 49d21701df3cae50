// Lab: parameter-server
//
// Learn: workers PULL the weights by READ and PUSH their gradients by WRITE; the server's program
//        adds up what is in its memory. Only two words per worker and step need anybody's
//        attention: "the weights are there" and "my gradients are there", as immediate data.
// Run:   verbena lab parameter-server                   a server and 8 workers on this machine
//        mpirun -n 5 verbena lab parameter-server       (or srun, or torchrun); rank 0 serves
// Try:   --ranks 4 --size 64K --iters 100

#include "labs/parameter-server/server.h"

namespace {

/// 4. A step of one worker: PULL, compute, PUSH.
void work(lab::Links& links, Model& model, const rdma::Buffer& own, std::size_t begin,
          std::size_t end, std::uint32_t word) {
  const Layout layout{model};
  const rdma::RemoteBuffer server = links.memory_of(0);
  links.expect(0, word);
  links.post(0, rdma::Read{own.slice(0, layout.weights), server.slice(0, layout.weights)});
  links.finish(0);
  const auto numbers = own.as<double>();
  for (std::size_t shard = begin; shard < end; ++shard) {
    const std::size_t at = layout.shard_at(shard);
    model.compute(shard, numbers.first(model.features()),
                  numbers.subspan(at / sizeof(double), model.shard_size()));
    links.post(0, rdma::Write{own.slice(at, layout.shard), server.slice(at, layout.shard)});
  }
  // The word can't overtake the WRITEs before it: requests of one queue pair keep their order.
  links.tell(0, word);
  links.finish(0);
}

void body(const lab::Options& options, const lab::Rank& me) {
  // 1. Meet. Workers may read and write the server's memory; the server never theirs.
  lab::Meeting meeting{options, me};
  lab::Links links{options, meeting, /*hub_only=*/true};
  Model model{(options.size + sizeof(double) - 1) / sizeof(double)};
  const auto rights =
      me.number == 0 ? rdma::Access::remote_read | rdma::Access::remote_write : rdma::Access::none;
  const rdma::Buffer memory{links.pd(), Layout{model}.size(), rights};
  links.connect(meeting, memory.remote());
  const unsigned workers = me.count - 1;
  if (me.number == 0) {
    lab::say("{} weights, {} samples in {} shards, {} workers", model.features(), Model::kSamples,
             Model::kShards, workers);
    serve({options, links, model, memory}, workers);
  } else {
    lab::Work cost;
    for (const unsigned team : team_sizes(workers)) {
      if (me.number > team) continue;
      for (std::uint64_t step = 0; step < options.iters; ++step) {
        work(links, model, memory, first_shard(me.number - 1, team), first_shard(me.number, team),
             word_for(team, step));
      }
    }
    cost.done();
  }
  meeting.barrier();
}

void add_options(lab::OwnOptions& own) {
  own.means("--size", "Bytes of the model's weights", {1, 1 << 20});
  own.means("--iters", "Steps of the training");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run_ranks(
      argc, argv,
      {.name = "parameter-server",
       .idea = "Gradients by WRITE, weights by READ: many workers get the same model",
       .size = 512,
       .iters = 60,
       .more = add_options},
      {.usual = 9, .least = 2}, body);
}
