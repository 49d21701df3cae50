#include "tools/bench/ends/udp_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

namespace verbena::bench {
namespace {

constexpr std::chrono::milliseconds kAgain{20};  // a greeting may be lost

[[noreturn]] void fail(const char* call) {
  throw Failed{fmt::format("{}: the measured UDP socket: {}", call, std::strerror(errno))};
}

Socket udp_socket(int family) {
  Socket made{::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (made.fd() < 0) fail("socket");
  return made;
}

Socket bound(std::uint16_t port) {
  auto at = rdma::SocketAddress::any(port);
  Socket made = udp_socket(at.family());
  if (bind(made.fd(), at.raw(), at.size()) == 0) return made;
  at.set_port(0);
  if (bind(made.fd(), at.raw(), at.size()) != 0) fail("bind");
  return made;
}

}  // namespace

void set_patience(const Socket& socket, std::chrono::milliseconds patience) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  const timeval time{
      .tv_sec = seconds.count(),
      .tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(patience - seconds).count()};
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

std::size_t segment_size(const Socket& socket, std::size_t most) {
  const bool v6 = socket.peer().family() == AF_INET6;
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
  if (getsockopt(socket.fd(), level, v6 ? IPV6_MTU : IP_MTU, &mtu, &size) != 0) return 1024;
  const int headers = v6 ? 48 : 28;  // IP and UDP; a mapped address has the smaller ones
  return std::min<std::size_t>(most, static_cast<std::size_t>(std::max(mtu - headers, 512)));
}

// The client greets by UDP until the server says over the control connection that it heard it.
Socket accept_udp(Meeting& meeting) {
  Socket socket = bound(meeting.listener->local().port());
  const std::string name = std::to_string(std::random_device{}());
  meeting.control.send(std::to_string(socket.local().port()));
  meeting.control.send(name);
  set_patience(socket, kAgain);
  const rdma::Deadline until = Control::kPatience;
  while (!until.passed()) {
    std::string said(64, '\0');
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    const ssize_t n = recvfrom(socket.fd(), said.data(), said.size(), 0,
                               reinterpret_cast<sockaddr*>(&from), &size);
    if (n < 0 || said.substr(0, static_cast<std::size_t>(n)) != name) {
      meeting.control.check_alive();
      continue;
    }
    if (connect(socket.fd(), reinterpret_cast<const sockaddr*>(&from), size) != 0) fail("connect");
    meeting.control.send("heard");
    return socket;
  }
  throw Failed{fmt::format("no UDP datagram arrived at port {}; does a firewall drop them?",
                           socket.local().port())};
}

Socket connect_udp(Meeting& meeting) {
  auto to = meeting.server;
  const int port = std::stoi(meeting.control.recv());
  to.set_port(static_cast<std::uint16_t>(port));
  const std::string name = meeting.control.recv();
  Socket socket = udp_socket(to.family());
  if (connect(socket.fd(), to.raw(), to.size()) != 0) fail("connect");
  while (!meeting.control.is_readable()) {
    // A datagram that arrives before the server's socket is connected is refused at worst.
    (void)::send(socket.fd(), name.data(), name.size(), 0);
    std::array<char, 1> unused{};
    set_patience(socket, kAgain);
    (void)::recv(socket.fd(), unused.data(), unused.size(), 0);
  }
  (void)meeting.control.recv();
  return socket;
}

}  // namespace verbena::bench
