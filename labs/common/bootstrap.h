#pragma once

// Ends that meet over a TCP socket instead of rdma_cm, and what they speak from afterwards.

#include <sys/sysinfo.h>

#include <optional>

#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace lab {

[[nodiscard]] inline std::chrono::milliseconds time_left(const Options& options) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      options.deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds{1});
}

/// The server's side of the socket; says to the client of the same command line that it listens.
[[nodiscard]] inline rdma::TcpBootstrap accept_tcp(const Options& options) {
  rdma::TcpListener listener{options.port};
  ready();
  return listener.accept(time_left(options));
}
[[nodiscard]] inline rdma::TcpBootstrap connect_tcp(const Options& options) {
  return rdma::TcpBootstrap::connect(options.host, options.port, time_left(options));
}

/// Until both ends have called it. An end that left earlier would take the other's last
/// acknowledgement with it, which may have been lost.
inline void say_goodbye(const Options& options, rdma::TcpBootstrap tcp) {
  shutdown(tcp.fd(), SHUT_WR);
  pollfd closing{.fd = tcp.fd(), .events = POLLIN, .revents = 0};
  const int ready = poll(&closing, 1, rdma::Deadline{options.deadline}.poll_timeout());
  check(ready != 0, "{} is still busy after {} s", tcp.peer(), options.timeout);
}

/// A device, opened, and the row of its GID table to speak from.
struct Origin {
  rdma::Context context;
  rdma::GidEntry gid;
};

/// Where the socket's own end is, as a GID.
[[nodiscard]] inline rdma::Gid gid_of_socket(const rdma::TcpBootstrap& tcp) {
  rdma::SocketAddress address = rdma::SocketAddress::any(0);
  socklen_t size = address.size();
  if (getsockname(tcp.fd(), address.raw(), &size) != 0) {
    throw rdma::Error{"getsockname", tcp.peer(), errno};
  }
  rdma::Gid gid = *rdma::Gid::parse("0.0.0.0");
  if (address.family() == AF_INET) {
    std::memcpy(gid.bytes.data() + 12, &reinterpret_cast<sockaddr_in*>(address.raw())->sin_addr, 4);
  } else {  // an IPv4 peer shows as ::ffff:a.b.c.d, which is how a GID says it
    std::memcpy(gid.bytes.data(), &reinterpret_cast<sockaddr_in6*>(address.raw())->sin6_addr, 16);
  }
  return gid;
}

/// Of the device that --device names, else of the one that has the socket's address. The row is the
/// one that holds this address, if one does: the peer can reach it.
[[nodiscard]] inline Origin origin(const Options& options, const rdma::TcpBootstrap& tcp,
                                   std::optional<int> gid_index = std::nullopt) {
  const rdma::Gid here = gid_of_socket(tcp);
  rdma::Context context{options.device.empty() ? rdma::device_with_address(here.to_string())
                                               : rdma::Device::by_name(options.device)};
  if (gid_index) {
    for (const rdma::GidEntry& row : context.gids()) {
      if (row.index == *gid_index) return {std::move(context), row};
    }
    throw Refused{
        fmt::format("--gid-index {}: that row of {}'s table is empty; `verbena devices` "
                    "shows those that aren't",
                    *gid_index, context.name())};
  }
  const auto same = context.find_gid(here);
  const rdma::GidEntry row = same ? *same : context.best_gid(1, here);
  return {std::move(context), row};
}

/// Throws Refused: no message of that device can be so long.
inline void check_message_size(const rdma::Context& context, std::uint64_t bytes) {
  const std::uint64_t most = context.port().max_msg_sz;
  if (bytes <= most) return;
  throw Refused{
      fmt::format("--size: a message of {} bytes is longer than max_msg_sz of {}, {} "
                  "bytes: choose less",
                  bytes, context.name(), most)};
}

/// Throws Refused: both ends together need `bytes`, which is more than half of this machine.
inline void check_memory(std::uint64_t bytes) {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return;
  const std::uint64_t memory = std::uint64_t{info.totalram} * info.mem_unit;
  if (bytes <= memory / 2) return;
  throw Refused{
      fmt::format("the buffers of this lab would take {} bytes, more than half of this "
                  "machine's memory ({} bytes): choose a smaller --size",
                  bytes, memory)};
}

}  // namespace lab
