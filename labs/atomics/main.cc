// Lab: atomics
//
// Learn: FETCH_ADD and COMPARE_SWAP act on 8 bytes of the peer's memory, indivisibly, whoever else
//        does the same. With the first many clients count, with the second they make a lock; the
//        server's program does nothing at all. READ, add, WRITE isn't the same: updates get lost.
// Run:   verbena lab atomics                both ends on this machine
//        verbena lab atomics server | verbena lab atomics client HOST --clients 8
// Try:   --clients 16 --iters 20 --drop 1%

#include "labs/common/clients.h"
#include "labs/common/pattern.h"

namespace {

std::uint32_t clients = 4;

/// Four words of the server's memory.
struct Words {
  std::uint64_t counter;    // everybody adds to it
  std::uint64_t lock;       // 0: free; else the number of the client that has it, from 1
  std::uint64_t guarded;    // changed by READ and WRITE, by the owner of the lock
  std::uint64_t unguarded;  // the same without a lock
};

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
  lab::wait_for_goodbyes(options, connections);
  const Words& words = memory->as<Words>()[0];
  lab::check(words.counter == total, "the counter is {} instead of {}", words.counter, total);
  lab::check(words.lock == 0, "client {} still has the lock", words.lock);
  lab::check(words.guarded == total, "under the lock {} were counted instead of {}", words.guarded,
             total);
  lab::say("found counter {}, guarded {}, unguarded {}", words.counter, words.guarded,
           words.unguarded);
}

struct Work {
  std::uint64_t tickets = 0;   // the sum of each one's mix(), which tells which were in it
  std::uint64_t refusals = 0;  // the lock was somebody else's
};

class Client {
 public:
  Client(const lab::Options& options, rdma::Connection& connection, std::uint64_t me)
      : options_{options},
        connection_{connection},
        there_{lab::offered<rdma::RemoteBuffer>(connection)},
        word_{connection.buffer(8)},
        me_{me} {}

  Work work() {
    Work done;
    for (std::uint64_t i = 0; i < options_.iters; ++i) {
      // 2. Add, and learn what was there before: a ticket that nobody else has.
      done.tickets += lab::mix(connection_.fetch_add(at(offsetof(Words, counter)), 1));
      // 3. The lock. Who finds 0 has it; who finds another number tries again.
      while (connection_.compare_swap(at(offsetof(Words, lock)), 0, me_) != 0) {
        ++done.refusals;
        lab::check(!rdma::Deadline{options_.deadline}.passed(), "client {} never got the lock",
                   me_);
      }
      read_add_write(at(offsetof(Words, guarded)));
      const std::uint64_t owner = connection_.compare_swap(at(offsetof(Words, lock)), me_, 0);
      lab::check(owner == me_, "client {} gives back a lock that {} has", me_, owner);
    }
    // 4. The same without a lock: between READ and WRITE somebody else's WRITE may come.
    for (std::uint64_t i = 0; i < options_.iters; ++i)
      read_add_write(at(offsetof(Words, unguarded)));
    return done;
  }
  Words look() {
    rdma::Buffer words = connection_.buffer(sizeof(Words));
    connection_.read(words, there_);
    return words.as<Words>()[0];
  }

 private:
  [[nodiscard]] rdma::RemoteBuffer at(std::uint64_t offset) const {
    return there_.slice(offset, 8);
  }
  void read_add_write(const rdma::RemoteBuffer& word) {
    connection_.read(word_, word);
    ++word_.as<std::uint64_t>()[0];
    connection_.write(word_, word);
  }

  const lab::Options& options_;
  rdma::Connection& connection_;
  rdma::RemoteBuffer there_;
  rdma::Buffer word_;
  std::uint64_t me_;
};

void client(const lab::Options& options) {
  skip_without_atomics(rdma::Context{rdma::choose_device(options.device, options.host)});
  auto connections = lab::connect_crowd(options, clients);
  const auto done = lab::all_at_once(connections, [&](std::size_t i, rdma::Connection& connection) {
    return Client{options, connection, i + 1}.work();
  });

  const std::uint64_t total = clients * options.iters;
  std::uint64_t tickets = 0, refusals = 0;
  for (const Work& one : done) tickets += one.tickets, refusals += one.refusals;
  for (std::uint64_t i = 0; i < total; ++i) tickets -= lab::mix(i);
  lab::check(tickets == 0, "the tickets aren't 0 to {}, each once", total - 1);
  const Words words = Client{options, connections.front(), 1}.look();
  lab::check(words.counter == total && words.guarded == total, "counted {} and {} instead of {}",
             words.counter, words.guarded, total);
  lab::costs().round_trips = lab::costs().completions = lab::costs().needed = 7 * total + refusals;
  for (rdma::Connection& connection : connections) lab::say_goodbye(options, connection);

  const std::uint64_t lost = total - words.unguarded;
  lab::say("{} tickets, each once; the lock was asked for {} times in vain", total, refusals);
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
             own.number("--clients", clients, {1, lab::kMostClients}, "How many at once");
           }},
      server, client);
}
