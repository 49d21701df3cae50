// TCP beside RDMA: a stream of writes, and a ping-pong, each of the spec's size. With "polling"
// both ends of the ping-pong spin; with "events" they block.

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/ends/data_socket.h"
#include "tools/bench/ends/meter.h"
#include "tools/bench/ends/round_trips.h"

namespace verbena::bench {
namespace {

[[noreturn]] void fail(const char* call) {
  throw Failed{fmt::format("{}: the measured TCP connection: {}", call, std::strerror(errno))};
}

void send_all(const Socket& socket, const std::vector<char>& message) {
  for (std::size_t at = 0; at < message.size();) {
    const ssize_t n = ::send(socket.fd(), message.data() + at, message.size() - at, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) fail("send");
    if (n > 0) at += static_cast<std::size_t>(n);
  }
}

/// False: the other end sends no more.
bool recv_all(const Socket& socket, std::vector<char>& message, bool spin) {
  for (std::size_t at = 0; at < message.size();) {
    const ssize_t n =
        ::recv(socket.fd(), message.data() + at, message.size() - at, spin ? MSG_DONTWAIT : 0);
    if (n == 0) return false;
    if (n < 0 && errno != EINTR && errno != EAGAIN) fail("recv");
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Outcome drive_tcp_bandwidth(const Spec& spec, Meeting& meeting) {
  const Socket socket = connect_data_socket(meeting);
  const int off = 0;  // a stream may gather small writes, which is faster
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &off, sizeof off);
  const std::vector<char> message(spec.size, 1);
  std::uint64_t sent = 0;
  const double cpu = cpu_seconds();
  const auto run_for = [&](double seconds) {
    const std::uint64_t before = sent;
    const auto begin = Clock::now();
    auto now = begin;
    do {
      send_all(socket, message);
      ++sent;
      now = Clock::now();
    } while (seconds_between(begin, now) < seconds);
    return static_cast<double>(sent - before) / seconds_between(begin, now);
  };
  (void)run_for(spec.seconds / 10);
  const double rate = run_for(spec.seconds);
  shutdown(socket.fd(), SHUT_WR);
  const auto target = nlohmann::json::parse(meeting.control.recv());
  const double own_cpu = cpu_seconds() - cpu;
  if (target.at("bytes") != sent * spec.size) throw Failed{"bytes of the TCP stream are missing"};
  const double gigabytes = static_cast<double>(sent * spec.size) / 1e9;
  const double sender = own_cpu / gigabytes;
  const double receiver = target.at("cpu_seconds").get<double>() / gigabytes;
  Sample sample;
  sample.figures = {{"gb_per_s", rate * static_cast<double>(spec.size) / 1e9},
                    {"messages_per_s", rate},
                    {"sender_cpu_s_per_gb", sender},
                    {"receiver_cpu_s_per_gb", receiver},
                    {"cpu_s_per_gb", sender + receiver}};
  return {std::move(sample), ""};
}

std::string serve_tcp_bandwidth(const Spec& spec, Meeting& meeting) {
  constexpr std::size_t kLeast = 256 * 1024;
  const Socket socket = accept_data_socket(meeting);
  std::vector<char> room(std::max<std::size_t>(spec.size, kLeast));
  std::uint64_t bytes = 0;
  const double cpu = cpu_seconds();
  for (;;) {
    const ssize_t n = ::recv(socket.fd(), room.data(), room.size(), 0);
    if (n == 0) break;
    if (n < 0 && errno != EINTR) fail("recv");
    if (n > 0) bytes += static_cast<std::uint64_t>(n);
  }
  meeting.control.send(
      nlohmann::json{{"bytes", bytes}, {"cpu_seconds", cpu_seconds() - cpu}}.dump());
  return "";
}

Outcome drive_tcp_latency(const Spec& spec, Meeting& meeting) {
  const Socket socket = connect_data_socket(meeting);
  std::vector<char> message(spec.size, 1);
  const bool spin = spec.completion == "polling";
  Sample sample = measure_round_trips(spec, 2, [&] {
    send_all(socket, message);
    if (!recv_all(socket, message, spin)) throw Failed{"the other end is gone; was it killed?"};
    return true;
  });
  shutdown(socket.fd(), SHUT_WR);
  (void)meeting.control.recv();
  return {std::move(sample), ""};
}

std::string serve_tcp_latency(const Spec& spec, Meeting& meeting) {
  const Socket socket = accept_data_socket(meeting);
  std::vector<char> message(spec.size, 1);
  const bool spin = spec.completion == "polling";
  while (recv_all(socket, message, spin)) send_all(socket, message);
  meeting.control.send("done");
  return "";
}

}  // namespace verbena::bench
