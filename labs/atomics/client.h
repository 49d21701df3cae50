#pragma once

// One client of many: steps 2 to 4.

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"

namespace atomics {

/// Four words of the server's memory.
struct Words {
  std::uint64_t counter;    // everybody adds to it
  std::uint64_t lock;       // 0: free; else the number of the client that has it, from 1
  std::uint64_t guarded;    // changed by READ and WRITE, by the owner of the lock
  std::uint64_t unguarded;  // the same without a lock
};

/// What a client has done.
struct Deeds {
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

  Deeds work() {
    lab::Work work;
    Deeds done;
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
    const std::uint64_t waits = 7 * options_.iters + done.refusals;
    work.done({.round_trips = waits, .needed = waits});
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

}  // namespace atomics
