// The client: steps 2 and 4.

#include "labs/bulk/messages.h"
#include "labs/common/bootstrap.h"
#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/cpu_time.h"
#include "labs/common/pattern.h"

namespace {

using Clock = std::chrono::steady_clock;

/// 4. A window of `depth` requests. One completion tells that all requests up to it are done, so
///    most of them need none; the last one does, or nobody would know the end.
std::uint64_t write_all(rdma::Connection& connection, const rdma::Buffer& data,
                        const rdma::RemoteBuffer& to, const bulk::Shape& shape) {
  const std::uint64_t count = (data.size() + shape.chunk - 1) / shape.chunk;
  std::uint64_t posted = 0, done = 0, completions = 0;
  while (done < count) {
    while (posted < count && posted - done < shape.depth) {
      const std::uint64_t at = posted * shape.chunk;
      const std::uint64_t length = std::min(shape.chunk, data.size() - at);
      rdma::Write write{data.slice(at, length), to.slice(at, length)};
      write.id(++posted);
      if (posted % shape.every == 0 || posted == count) write.signaled();
      connection.post(write).check();
    }
    done = connection.wait().check().id();
    ++completions;
  }
  return completions;
}

void send_all(rdma::TcpBootstrap& tcp, std::span<const std::byte> data, std::uint64_t chunk) {
  for (std::uint64_t at = 0; at < data.size(); at += chunk) {
    tcp.send_bytes(data.subspan(at, std::min(chunk, data.size() - at)));
  }
}

/// One transfer. Both ways end when the server has said that it has everything.
bulk::Figures transfer(rdma::Connection& connection, rdma::TcpBootstrap& tcp,
                       const rdma::Buffer& data, const bulk::Shape& shape, std::uint64_t seed) {
  const auto offer = lab::offered<Offer>(connection);
  lab::fill_pattern(data.bytes(), seed);
  connection.send_value(Order{seed, data.size(), shape.chunk, shape.is_tcp() ? 1u : 0u});
  bulk::Figures figures;
  const double before = lab::cpu_seconds();
  connection.barrier();
  const auto start = Clock::now();
  if (shape.is_tcp()) {
    send_all(tcp, data.bytes(), shape.chunk);
  } else {
    figures.completions = write_all(connection, data, offer.memory, shape);
    connection.send_value(Done{seed});
  }
  figures.server_cpu = connection.recv_value<Cost>().cpu_seconds;
  figures.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  figures.client_cpu = lab::cpu_seconds() - before;
  const auto broken = connection.recv_value<std::uint64_t>();
  lab::check(broken == kIntact, "the server found the byte at {} wrong", broken);
  return figures;
}

}  // namespace

void client(const lab::Options& options) {
  // 2. Both connections, before any clock runs. The send queue is as deep as the deepest shape.
  rdma::ConnectionOptions wanted = lab::within(options);
  wanted.send_depth = static_cast<std::uint32_t>(sweep.deepest() + 4);
  wanted.offer(std::uint64_t{options.size});
  rdma::Connection connection = lab::connect(options, wanted);
  const auto offer = lab::offered<Offer>(connection);
  rdma::TcpBootstrap tcp = lab::connect_tcp(options, static_cast<std::uint16_t>(offer.tcp_port));
  rdma::Buffer data = connection.buffer(options.size);
  lab::say("{} bytes to {}, each transfer checked; the best of {} counts", options.size,
           connection.peer().to_string(), options.iters);

  lab::say(bulk::heading());
  lab::Work work;
  std::uint64_t seed = 0, copied = 0;
  double best_rdma = 0, best_tcp = 0;  // bytes per second
  for (const bulk::Shape& shape : bulk::shapes_of(sweep, options.size)) {
    bulk::Figures best = transfer(connection, tcp, data, shape, ++seed);
    for (std::uint64_t i = 1; i < options.iters; ++i) {
      const bulk::Figures again = transfer(connection, tcp, data, shape, ++seed);
      if (again.seconds < best.seconds) best = again;
    }
    lab::say(bulk::row(shape, best, options.size));
    if (shape.is_tcp()) copied += options.iters * options.size;  // to the socket
    double& record = shape.is_tcp() ? best_tcp : best_rdma;
    record = std::max(record, static_cast<double>(options.size) / best.seconds);
  }
  work.done({.copied = copied});
  connection.send_value(Order{});
  lab::say_goodbye(options, connection);
  lab::shown("{} transfers, all intact; at best {:.2f} GB/s by RDMA, {:.2f} GB/s by TCP", seed,
             best_rdma / 1e9, best_tcp / 1e9);
}
