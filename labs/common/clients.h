#pragma once

// Many clients of one server: a thread each, with a connection of its own.

#include <cstdint>
#include <future>
#include <vector>

#include "labs/common/connect.h"

namespace lab {

inline constexpr std::uint32_t kMostClients = 128;

/// What each client says in its private data: how many they are, and how much each will do.
struct Crowd {
  std::uint32_t clients = 0;
  std::uint32_t number = 0;  // of this one, from 0
  std::uint64_t iters = 0;
};

inline constexpr std::uint32_t kGo = 0x676f;  // "go", from the server when all have connected

/// They connect one after the other and start working together.
[[nodiscard]] inline std::vector<rdma::Connection> connect_crowd(const Options& options,
                                                                 std::uint32_t clients) {
  std::vector<rdma::Connection> connections;
  for (std::uint32_t i = 0; i < clients; ++i) {
    rdma::ConnectionOptions connection;
    connection.offer(Crowd{clients, i, options.iters});
    connection.ack_timeout = 16;  // 0.27 s: a server that died shows before --timeout
    connections.push_back(connect(options, std::move(connection)));
  }
  for (rdma::Connection& connection : connections) {
    check(connection.recv_value<std::uint32_t>() == kGo, "the server didn't say go");
  }
  return connections;
}

/// work(number, connection) in a thread each; their results, in order. Rethrows what one threw,
/// and ends the work of the others then.
template <class Work>
[[nodiscard]] auto all_at_once(std::vector<rdma::Connection>& connections, Work work) {
  using Result = std::invoke_result_t<Work, std::size_t, rdma::Connection&>;
  std::vector<std::future<Result>> running;
  for (std::size_t i = 0; i < connections.size(); ++i) {
    running.push_back(std::async(std::launch::async, [&, i] { return work(i, connections[i]); }));
  }
  std::vector<Result> results;
  try {
    for (std::future<Result>& one : running) results.push_back(one.get());
  } catch (...) {
    // What they wait for now completes with WR_FLUSH_ERR. It is the one thing that another thread
    // may do to a Connection.
    for (rdma::Connection& connection : connections) connection.qp().to_error();
    throw;
  }
  return results;
}

/// The server's side of connect_crowd(): accept(request, crowd) makes each connection.
template <class Accept>
[[nodiscard]] std::vector<rdma::Connection> accept_crowd(const Options& options,
                                                         rdma::Listener& listener, Accept accept) {
  std::vector<rdma::Connection> connections;
  std::uint32_t expected = 1;
  while (connections.size() < expected) {
    rdma::ConnectionRequest request = next_request(options, listener);
    const auto crowd = offered<Crowd>(request);
    check(crowd.clients >= 1 && crowd.clients <= kMostClients && crowd.iters >= 1,
          "{} asks for {} clients, {} times; possible are 1 to {}, once or more",
          request.peer().to_string(), crowd.clients, crowd.iters, kMostClients);
    expected = crowd.clients;
    connections.push_back(accept(request, crowd));
  }
  for (rdma::Connection& connection : connections) connection.send_value(kGo);
  return connections;
}

/// Until all of them have said goodbye.
inline void wait_for_goodbyes(const Options& options, std::vector<rdma::Connection>& connections) {
  for (rdma::Connection& connection : connections) {
    wait_for_goodbye(options, connection);
    connection.disconnect();
  }
}

}  // namespace lab
