#pragma once

// Ends that meet over a TCP socket instead of rdma_cm, and what they speak from afterwards.

#include <sys/sysinfo.h>

#include <array>
#include <optional>

#include "labs/common/badge.h"
#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace lab {

/// The next one who shows the badge of this lab. Strangers are shown ours, noted, and waited past,
/// those that say nothing for this long, too. Throws rdma::TimedOut.
inline constexpr std::chrono::seconds kPatience{2};
[[nodiscard]] inline rdma::TcpBootstrap next_guest(const Options& options,
                                                   rdma::TcpListener& listener) {
  const Badge ours = badge_of(options);
  while (true) {
    rdma::TcpBootstrap guest = listener.accept(time_left(options));
    try {
      std::array<std::byte, sizeof(Badge)> shown{};
      guest.recv_bytes(shown,
                       std::min(rdma::Deadline{kPatience}, rdma::Deadline{options.deadline}));
      guest.send_value(ours);
      const auto why = stranger(options, shown);
      if (why.empty()) return guest;
      say("{} is turned away: {}", guest.peer(), why);
    } catch (const rdma::Error& error) {
      say("{} is turned away: it showed no badge of a lab ({})", guest.peer(), error.what());
    }
  }
}

/// To an end of this lab; tries until somebody listens. Throws Failed when it isn't one.
[[nodiscard]] inline rdma::TcpBootstrap meet_by_tcp(const Options& options, const std::string& host,
                                                    std::uint16_t port) {
  const auto tcp_to = [&] { return rdma::TcpBootstrap::connect(host, port, time_left(options)); };
  try {
    rdma::TcpBootstrap tcp = tcp_to();
    tcp.send_value(badge_of(options));
    std::array<std::byte, sizeof(Badge)> shown{};
    tcp.recv_bytes(shown);
    const auto why = stranger(options, shown);
    check(why.empty(), "{}: {}", tcp.peer(), why);
    return tcp;
  } catch (const rdma::Error& error) {
    throw Failed{not_there(options, error)};
  }
}

/// The server's side of the socket; says to the client of the same command line that it listens.
[[nodiscard]] inline rdma::TcpBootstrap accept_tcp(const Options& options) {
  rdma::TcpListener listener{options.port};
  ready(listener.port());
  try {
    return next_guest(options, listener);
  } catch (const rdma::TimedOut&) {
    nobody_came(options);
  }
}
[[nodiscard]] inline rdma::TcpBootstrap connect_tcp(const Options& options, std::uint16_t port) {
  return meet_by_tcp(options, options.host, port);
}
[[nodiscard]] inline rdma::TcpBootstrap connect_tcp(const Options& options) {
  return connect_tcp(options, options.port);
}

/// Until both ends have called it. An end that left earlier would take the other's last
/// acknowledgement with it, which may have been lost.
inline void say_goodbye(const Options& options, rdma::TcpBootstrap tcp) {
  shutdown(tcp.fd(), SHUT_WR);
  pollfd closing{.fd = tcp.fd(), .events = POLLIN, .revents = 0};
  const int ready = poll(&closing, 1, rdma::Deadline{options.deadline}.poll_timeout());
  in_time(ready != 0, "the end of {}", tcp.peer());
}

/// A device, opened, and the row of its GID table to speak from.
struct Origin {
  rdma::Context context;
  rdma::GidEntry gid;
};

/// Of the device that --device names, else of the one that has the socket's address. The row is the
/// one that holds this address, if one does: the peer can reach it.
[[nodiscard]] inline Origin origin(const Options& options, const rdma::TcpBootstrap& tcp,
                                   std::optional<int> gid_index = std::nullopt) {
  const rdma::Gid here = tcp.local().gid();
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
