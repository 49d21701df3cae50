// Lab: atomics
//
// Learn: FETCH_ADD and COMPARE_SWAP act on 8 bytes of the peer's memory, indivisibly, whoever else
//        does the same. With the first many clients count, with the second they make a lock; the
//        server's program does nothing at all. READ, add, WRITE isn't the same: updates get lost.
// Run:   verbena lab atomics                both ends on this machine
//        verbena lab atomics server | verbena lab atomics client HOST --clients 8
// Try:   --clients 16 --iters 20 --drop 1%

#include "labs/atomics/client.h"
#include "labs/common/clients.h"

using namespace atomics;

namespace {

std::uint32_t clients = 4;

void skip_without_atomics(const rdma::Context& context) {
  if (context.limits().atomic_cap != IBV_ATOMIC_NONE) return;
  throw lab::Skipped{
      fmt::format("{} has no atomics (atomic_cap is IBV_ATOMIC_NONE)", context.name())};
}

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  std::optional<rdma::ProtectionDomain> pd;
  std::optional<rdma::Buffer> memory;
  std::uint64_t total = 0;
  // 1. Memory for all of them. An atomic needs a right of its own, and an address that 8 divides.
  auto connections =
      lab::accept_crowd(options, listener, [&](auto& request, const lab::Crowd& crowd) {
        if (!pd) {
          skip_without_atomics(request.context());
          pd.emplace(request.context());
          memory.emplace(*pd, sizeof(Words), rdma::Access::remote);
        }
        total += crowd.iters;
        rdma::ConnectionOptions answer = lab::within(options);
        answer.pd = &*pd;
        answer.offer(memory->remote());
        return lab::accept(options, request, answer);
      });
  lab::say("{} clients may change {} bytes", connections.size(), memory->size());

  // 5. Nothing to do until the last one has left.
  lab::Work work;
  lab::wait_for_goodbyes(options, connections);
  work.done();
  const Words& words = memory->as<Words>()[0];
  lab::check(words.counter == total, "the counter is {} instead of {}", words.counter, total);
  lab::check(words.lock == 0, "client {} still has the lock", words.lock);
  lab::check(words.guarded == total, "the word under the lock is {} instead of {}", words.guarded,
             total);
  lab::say("found counter {}, guarded {}, unguarded {}", words.counter, words.guarded,
           words.unguarded);
}

void client(const lab::Options& options) {
  skip_without_atomics(rdma::Context{rdma::choose_device(options.device, options.host)});
  auto connections = lab::connect_crowd(options, clients);
  const auto done = lab::all_at_once(connections, [&](std::size_t i, rdma::Connection& connection) {
    return Client{options, connection, i + 1}.work();
  });

  const std::uint64_t total = clients * options.iters;
  std::uint64_t tickets = 0, refusals = 0;
  for (const Deeds& one : done) tickets += one.tickets, refusals += one.refusals;
  for (std::uint64_t i = 0; i < total; ++i) tickets -= lab::mix(i);
  lab::check(tickets == 0, "the tickets aren't the numbers 0 to {}, each once", total - 1);
  const Words words = Client{options, connections.front(), 1}.look();
  lab::check(words.counter == total && words.guarded == total, "counted {} and {} instead of {}",
             words.counter, words.guarded, total);
  for (rdma::Connection& connection : connections) lab::say_goodbye(options, connection);

  const std::uint64_t lost = total - words.unguarded;
  lab::say("{} tickets, each once; asked for the lock in vain: {} times", total, refusals);
  lab::say("without the lock {} of {} updates got lost", lost, total);
  lab::shown("{} clients, {} FETCH_ADDs and {} updates under a lock: none lost (without: {})",
             clients, total, total, lost);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "atomics",
       .idea = "FETCH_ADD and COMPARE_SWAP: a counter and a lock of many clients",
       .iters = 100,
       .without = {"--size"},
       .more =
           [](lab::OwnOptions& own) {
             own.number("--clients", clients, {1, lab::kMostClients}, "Clients at the same time");
           }},
      server, client);
}
