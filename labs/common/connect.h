#pragma once

// The labs' usual ends: one connection of rdma_cm, at the host, port and device of the options. In
// the private data of either side its badge comes first; see offered().

#include <poll.h>

#include <array>
#include <vector>

#include "labs/common/badge.h"
#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace lab {

/// A peer that doesn't answer for 8 times 0.5 s is gone; rdma_cm's own choice takes 4 times that.
constexpr std::uint8_t kAckTimeout = 17;  // 4.096 µs * 2^17

/// Waits and set-up end with the lab's own deadline.
[[nodiscard]] inline rdma::ConnectionOptions within(const Options& options,
                                                    rdma::ConnectionOptions connection = {}) {
  connection.timeout = time_left(options);
  if (connection.device.empty()) connection.device = options.device;
  if (!connection.ack_timeout) connection.ack_timeout = kAckTimeout;
  return connection;
}

/// Listens, and says so to the client of the same command line.
[[nodiscard]] inline rdma::Listener listen(const Options& options) {
  rdma::Listener listener = rdma::Listener::on_device(options.device, options.port);
  ready(listener.port());
  return listener;
}

namespace detail {
[[nodiscard]] inline rdma::ConnectionOptions badged(const Options& options,
                                                    rdma::ConnectionOptions connection) {
  const Badge badge = badge_of(options);
  const auto bytes = std::as_bytes(std::span{&badge, 1});
  connection.private_data.insert(connection.private_data.begin(), bytes.begin(), bytes.end());
  return within(options, std::move(connection));
}
}  // namespace detail

/// What the peer, a Connection's or a ConnectionRequest's, gave to offer().
template <rdma::Value T, class Peer>
[[nodiscard]] T offered(const Peer& peer) {
  const auto all = peer.private_data();
  const auto behind = all.subspan(std::min(all.size(), sizeof(Badge)));
  return rdma::Connection::value_of<T>(behind, peer.peer().to_string());
}

/// To the server of this lab. Throws Failed when it is another one's.
[[nodiscard]] inline rdma::Connection connect(const Options& options,
                                              rdma::ConnectionOptions connection = {}) {
  try {
    rdma::Connection made = rdma::Connection::connect(
        options.host, options.port, detail::badged(options, std::move(connection)));
    if (const auto why = stranger(options, made.private_data()); !why.empty()) {
      throw Failed{fmt::format("{}: {}", made.peer().to_string(), why)};
    }
    return made;
  } catch (const rdma::Rejected& rejected) {  // by another lab: with its badge
    if (!is_badge(rejected.private_data())) throw Failed{not_there(options, rejected)};
    throw Failed{
        fmt::format("{}: {}", rejected.object(), stranger(options, rejected.private_data()))};
  } catch (const rdma::Error& error) {
    throw Failed{not_there(options, error)};
  }
}

/// The next client of this lab. Others are rejected, told why, and waited past.
[[nodiscard]] inline rdma::ConnectionRequest next_request(const Options& options,
                                                          rdma::Listener& listener) {
  while (true) {
    auto request = listener.next(options.deadline);
    if (!request) nobody_came(options);
    const auto why = stranger(options, request->private_data());
    if (why.empty()) return std::move(*request);
    say("{} is turned away: {}", request->peer().to_string(), why);
    const Badge badge = badge_of(options);
    request->reject(std::as_bytes(std::span{&badge, 1}));
  }
}

[[nodiscard]] inline rdma::Connection accept(const Options& options,
                                             rdma::ConnectionRequest& request,
                                             rdma::ConnectionOptions connection = {}) {
  return request.accept(detail::badged(options, std::move(connection)));
}

/// Until the peer has hung up: for an end that has nothing to do meanwhile. Throws Late.
inline void wait_for_goodbye(const Options& options, rdma::Connection& connection) {
  while (connection.connected()) {
    pollfd event{.fd = connection.event_fd(), .events = POLLIN, .revents = 0};
    const int ready = poll(&event, 1, rdma::Deadline{options.deadline}.poll_timeout());
    in_time(ready != 0, "the peer's goodbye");
  }
}

/// The goodbye of who leaves first, when all is said and checked. The network may lose the answer
/// after which the other end leaves: then nobody is left to repeat it, and nothing is missing.
inline void say_goodbye(const Options& options, rdma::Connection& connection) {
  constexpr std::chrono::seconds kAnswer{6};  // rdma_cm repeats its request after 4.3 s
  try {
    connection.disconnect(std::min(rdma::Deadline{kAnswer}, rdma::Deadline{options.deadline}));
  } catch (const rdma::TimedOut&) {
    say("the server's answer to the goodbye was lost");
    connection.qp().to_error();
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
    in_time(ready != 0, "an event of the completion queue");
    check(waiting[0].revents != 0 || connection.connected(), "the peer hung up in the middle");
  }
}

}  // namespace lab
