#pragma once

// Two ways to wait for a completion.

#include <chrono>
#include <thread>

#include "labs/common/connect.h"

namespace events {

struct Counts {
  std::uint64_t caught = 0;    // completions that came between looking and arming
  std::uint64_t wake_ups = 0;  // sleeps that an event ended
};

inline bool poll_again = true;  // false: the mistake of --without second-poll
/// With the mistake, a moment passes between looking and arming: the message comes just then,
/// sooner or later.
constexpr auto kMoment = std::chrono::microseconds{100};

/// Looks again and again: nothing is quicker, and it takes a whole core.
[[nodiscard]] inline rdma::Completion by_polling(const lab::Options& options,
                                                 const rdma::CompletionQueue& cq) {
  const auto done = cq.spin(options.deadline);
  lab::in_time(done.has_value(), "a completion");
  return done->check();
}

/// Sleeps. An event is made for the next completion *after* arming; so whoever arms an empty queue
/// must look once more before he sleeps.
[[nodiscard]] inline rdma::Completion by_event(const lab::Options& options,
                                               rdma::Connection& connection,
                                               rdma::CompletionQueue& cq, Counts& counts) {
  while (true) {
    if (const auto done = cq.poll()) return done->check();
    if (!poll_again) std::this_thread::sleep_for(kMoment);
    cq.arm();  // ibv_req_notify_cq
    if (const auto done = poll_again ? cq.poll() : std::nullopt) {
      ++counts.caught;  // an event may still come for it: then a wake-up finds nothing
      return done->check();
    }
    lab::sleep_until_event(options, connection, cq);  // ibv_get_cq_event, ibv_ack_cq_events
    ++counts.wake_ups;
  }
}

}  // namespace events
