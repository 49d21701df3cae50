#pragma once

// Step 4: the server takes the messages. In the right order, and in the wrong one.

#include <vector>

#include "labs/send-recv/room.h"

namespace send_recv {

/// One completion per message, in the order of posting. Look at the message, then post its receive
/// again: from then on the next message may land there. At the end no receive is left.
inline Header receive_all(rdma::Connection& connection, const Room& room,
                          const lab::Options& options) {
  Header last;
  for (std::uint64_t id = 0; id < options.iters; ++id) {
    last = room.check(connection.wait().check(), id, options.size);
    if (id + kReceives < options.iters) connection.post(room.receive(id + kReceives)).check();
  }
  return last;
}

/// The wrong order: post the receive again, and look at its message when the next one has used it.
inline Header receive_and_look_late(rdma::Connection& connection, const Room& room,
                                    const lab::Options& options) {
  std::vector<rdma::Completion> done;
  for (std::uint64_t id = 0; id < options.iters; ++id) {
    done.push_back(connection.wait().check());
    if (id + kReceives < options.iters) connection.post(room.receive(id + kReceives)).check();
    if (id >= kReceives) room.check(done[id - kReceives], id - kReceives, options.size);
  }
  return room.check(done.back(), options.iters - 1, options.size);
}

}  // namespace send_recv
