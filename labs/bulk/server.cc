// The server: steps 1, 3 and 5.

#include "labs/bulk/messages.h"
#include "labs/common/bootstrap.h"
#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/cpu_time.h"
#include "labs/common/pattern.h"

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  rdma::ConnectionRequest request = lab::next_request(options, listener);

  // 1. One memory for both ways, and a TCP port beside the RDMA connection.
  const auto size = lab::offered<std::uint64_t>(request);
  lab::check(size == options.size,
             "the client sends {} bytes, this end expects {}: give both ends the same --size", size,
             options.size);
  rdma::ProtectionDomain pd{request.context()};
  rdma::Buffer memory{pd, options.size, rdma::Access::remote_write};
  rdma::TcpListener tcp_listener{0};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.offer(Offer{memory.remote(), tcp_listener.port()});
  rdma::Connection connection = lab::accept(options, request, answer);
  rdma::TcpBootstrap tcp = lab::next_guest(options, tcp_listener);

  // 3. For TCP the server's program fetches every chunk. For RDMA it only sleeps until the client
  //    says that all is there.
  lab::Work work;
  std::uint64_t copied = 0;
  for (Order order{}; (order = connection.recv_value<Order>(options.deadline)).chunk != 0;) {
    const double before = lab::cpu_seconds();
    connection.barrier();
    if (order.by_tcp != 0) {
      for (std::uint64_t at = 0; at < order.size; at += order.chunk) {
        tcp.recv_bytes(memory.bytes().subspan(at, std::min(order.chunk, order.size - at)));
      }
      copied += order.size;  // out of the socket
    } else {
      const auto done = connection.recv_value<Done>(options.deadline);
      lab::check(done.seed == order.seed, "transfer {} ended instead of transfer {}", done.seed,
                 order.seed);
    }
    const double used = lab::cpu_seconds() - before;

    // 5. What it cost here, and whether the bytes are right.
    connection.send_value(Cost{used});
    const std::size_t same = lab::first_difference(memory.bytes(), order.seed);
    const bool intact = same == memory.size();
    connection.send_value(intact ? kIntact : std::uint64_t{same});
    lab::check(intact, "the byte at {} of a transfer in chunks of {} is wrong", same, order.chunk);
  }
  work.done({.copied = copied});
  lab::wait_for_goodbye(options, connection);
}
