// Raw UDP, the limit of RDMA over UDP: a ping-pong with both ends spinning, and a stream of large
// batches (GSO and GRO) of which a few are in flight.

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/bench/ends/meter.h"
#include "tools/bench/ends/round_trips.h"
#include "tools/bench/ends/udp_socket.h"

namespace verbena::bench {
namespace {

constexpr std::chrono::milliseconds kLost{20};  // then a datagram or its answer is lost
constexpr std::size_t kSegment = 4096;          // of a batch; less if the path's MTU is small
constexpr std::uint64_t kInFlight = 4;          // batches

[[noreturn]] void fail(const char* call) {
  throw Failed{fmt::format("{}: the measured UDP socket: {}", call, std::strerror(errno))};
}

bool is_passing(int code) {
  return code == EAGAIN || code == EINTR || code == ENOBUFS || code == ECONNREFUSED;
}

/// Sends and counts the bytes that the other end has acknowledged. What is lost is given up.
class Sender {
 public:
  Sender(const Socket& socket, std::size_t size) : socket_{socket}, batch_(size, 1) {
    const int segment = static_cast<int>(segment_size(socket, kSegment));
    if (setsockopt(socket.fd(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof segment) != 0) {
      throw Skipped{"this kernel doesn't split UDP batches (UDP_SEGMENT)"};
    }
    set_patience(socket, kLost);
  }
  void step() {
    while (sent_ - taken_ < kInFlight * batch_.size()) {
      const ssize_t n = ::send(socket_.fd(), batch_.data(), batch_.size(), 0);
      if (n < 0 && !is_passing(errno)) fail("send");
      if (n < 0) break;
      sent_ += static_cast<std::uint64_t>(n);
    }
    std::uint64_t told = 0;
    const ssize_t n = ::recv(socket_.fd(), &told, sizeof told, 0);
    if (n < 0 && !is_passing(errno)) fail("recv");
    if (n == static_cast<ssize_t>(sizeof told)) {
      taken_ = std::min(sent_, told + given_up_);
    } else if (n < 0 && errno == EAGAIN) {
      given_up_ += sent_ - taken_;
      taken_ = sent_;
    }
  }

 private:
  const Socket& socket_;
  std::vector<char> batch_;
  std::uint64_t sent_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t given_up_ = 0;
};

}  // namespace

Outcome drive_udp_bandwidth(const Spec& spec, Meeting& meeting) {
  const Socket socket = connect_udp(meeting);
  const double cpu = cpu_seconds();
  Sender sender{socket, spec.size};
  const auto begin = Clock::now();
  Seldom seldom;
  while (seconds_between(begin, Clock::now()) < 1.1 * spec.seconds) {
    sender.step();
    if (seldom.due()) meeting.control.check_alive();
  }
  const double own_cpu = cpu_seconds() - cpu;
  meeting.control.send("done");
  const auto target = nlohmann::json::parse(meeting.control.recv());
  const double bytes = target.at("bytes").get<double>();
  const double seconds = target.at("seconds").get<double>();
  if (bytes <= 0 || seconds <= 0) throw Failed{"no UDP datagram arrived"};
  const double gigabytes = bytes / 1e9;
  const double receiver = target.at("cpu_seconds").get<double>() / gigabytes;
  Sample sample;
  sample.figures = {{"gb_per_s", gigabytes / seconds},
                    {"messages_per_s", bytes / static_cast<double>(spec.size) / seconds},
                    {"sender_cpu_s_per_gb", own_cpu / gigabytes},
                    {"receiver_cpu_s_per_gb", receiver},
                    {"cpu_s_per_gb", own_cpu / gigabytes + receiver}};
  return {std::move(sample), ""};
}

std::string serve_udp_bandwidth(const Spec& spec, Meeting& meeting) {
  constexpr std::size_t kRoom = 65536;
  const Socket socket = accept_udp(meeting);
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_UDP, UDP_GRO, &on, sizeof on);
  set_patience(socket, kLost);
  std::vector<char> room(kRoom);
  std::uint64_t bytes = 0, told = 0;
  Clock::time_point first, last;
  const double cpu = cpu_seconds();
  for (;;) {
    const ssize_t got = ::recv(socket.fd(), room.data(), room.size(), 0);
    if (got < 0 && !is_passing(errno)) fail("recv");
    if (got < 0 && meeting.control.is_readable()) break;
    if (got < 0) continue;
    last = Clock::now();
    if (bytes == 0) first = last;
    bytes += static_cast<std::uint64_t>(got);
    if (bytes - told >= spec.size) {
      told = bytes;
      (void)::send(socket.fd(), &told, sizeof told, 0);  // may be lost, as any datagram
    }
  }
  (void)meeting.control.recv();
  const nlohmann::json report{{"bytes", bytes},
                              {"seconds", seconds_between(first, last)},
                              {"cpu_seconds", cpu_seconds() - cpu}};
  meeting.control.send(report.dump());
  return "";
}

Outcome drive_udp_latency(const Spec& spec, Meeting& meeting) {
  const Socket socket = connect_udp(meeting);
  std::vector<char> message(spec.size, 1);
  Sample sample = measure_round_trips(spec, 2, [&] {
    if (::send(socket.fd(), message.data(), message.size(), 0) < 0 && !is_passing(errno)) {
      fail("send");
    }
    const auto begin = Clock::now();
    Seldom seldom;
    while (::recv(socket.fd(), message.data(), message.size(), MSG_DONTWAIT) < 0) {
      if (!is_passing(errno)) fail("recv");
      if (Clock::now() - begin > kLost) return false;
      if (seldom.due()) meeting.control.check_alive();
    }
    return true;
  });
  if (sample.times.total() == 0) throw Failed{"no UDP datagram was answered"};
  meeting.control.send("done");
  (void)meeting.control.recv();
  return {std::move(sample), ""};
}

std::string serve_udp_latency(const Spec& spec, Meeting& meeting) {
  const Socket socket = accept_udp(meeting);
  std::vector<char> message(spec.size);
  Seldom seldom;
  for (;;) {
    const ssize_t n = ::recv(socket.fd(), message.data(), message.size(), MSG_DONTWAIT);
    if (n > 0) (void)::send(socket.fd(), message.data(), static_cast<std::size_t>(n), 0);
    if (n < 0 && !is_passing(errno)) fail("recv");
    if (n < 0 && seldom.due() && meeting.control.is_readable()) break;
  }
  (void)meeting.control.recv();
  meeting.control.send("done");
  return "";
}

}  // namespace verbena::bench
