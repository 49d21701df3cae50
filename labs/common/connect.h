#pragma once

// The labs' usual ends: one connection of rdma_cm, at the host, port and device of the options.

#include <poll.h>

#include <array>

#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace lab {

/// A peer that doesn't answer for 8 times 0.5 s is gone; rdma_cm's own choice takes 4 times that.
constexpr std::uint8_t kAckTimeout = 17;  // 4.096 µs * 2^17

/// Waits and set-up end with the lab's own deadline.
[[nodiscard]] inline rdma::ConnectionOptions within(const Options& options,
                                                    rdma::ConnectionOptions connection = {}) {
  connection.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
      options.deadline - std::chrono::steady_clock::now());
  if (connection.device.empty()) connection.device = options.device;
  if (!connection.ack_timeout) connection.ack_timeout = kAckTimeout;
  return connection;
}

/// Listens, and says so to the client of the same command line.
[[nodiscard]] inline rdma::Listener listen(const Options& options) {
  rdma::Listener listener = rdma::Listener::on_device(options.device, options.port);
  ready();
  return listener;
}

[[nodiscard]] inline rdma::Connection connect(const Options& options,
                                              rdma::ConnectionOptions connection = {}) {
  return rdma::Connection::connect(options.host, options.port,
                                   within(options, std::move(connection)));
}

/// Until the peer has hung up: for an end that has nothing to do meanwhile. Throws Failed.
inline void wait_for_goodbye(const Options& options, rdma::Connection& connection) {
  while (connection.connected()) {
    pollfd event{.fd = connection.event_fd(), .events = POLLIN, .revents = 0};
    const int ready = poll(&event, 1, rdma::Deadline{options.deadline}.poll_timeout());
    check(ready != 0, "the peer is still there after {} s", options.timeout);
  }
}

/// The client's goodbye, when all is said and checked. The network may lose the answer after which
/// the server ends: then nobody is left to repeat it, and nothing is missing.
inline void say_goodbye(const Options& options, rdma::Connection& connection) {
  constexpr std::chrono::seconds kAnswer{6};  // rdma_cm repeats its request after 4.3 s
  try {
    connection.disconnect(std::min(rdma::Deadline{kAnswer}, rdma::Deadline{options.deadline}));
  } catch (const rdma::TimedOut&) {
    say("the server's answer to the goodbye was lost");
  }
}

/// Sleeps until the armed queue has an event, and takes it. Throws Failed when the peer hangs up.
inline void sleep_until_event(const Options& options, rdma::Connection& connection,
                              rdma::CompletionQueue& cq) {
  while (!cq.take_event()) {
    std::array<pollfd, 2> waiting{{{.fd = cq.fd(), .events = POLLIN, .revents = 0},
                                   {.fd = connection.event_fd(), .events = POLLIN, .revents = 0}}};
    const int ready =
        poll(waiting.data(), waiting.size(), rdma::Deadline{options.deadline}.poll_timeout());
    check(ready != 0, "no event within {} s", options.timeout);
    check(waiting[0].revents != 0 || connection.connected(), "the peer hung up in the middle");
  }
}

}  // namespace lab
