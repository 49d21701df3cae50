#include "tools/bench/ends/control.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

namespace verbena::bench {
namespace {

constexpr std::uint32_t kLongest = 1 << 20;
constexpr const char* kGone = "the other end of the measurement is gone; was it killed?";
constexpr std::string_view kBarrier = "barrier";

[[noreturn]] void fail(std::string_view call, const std::string& object, int code) {
  throw Failed{fmt::format("{}: {}: {}", call, object, std::strerror(code))};
}

/// False: not by then.
bool wait_for(int fd, short events, rdma::Deadline until) {
  pollfd waiting{.fd = fd, .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, until.poll_timeout());
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

template <typename Call>
rdma::SocketAddress address_by(Call call, int fd) {
  rdma::SocketAddress address = rdma::SocketAddress::any(0);
  sockaddr_storage room{};
  socklen_t size = sizeof room;
  if (call(fd, reinterpret_cast<sockaddr*>(&room), &size) != 0) return address;
  return rdma::SocketAddress{reinterpret_cast<const sockaddr*>(&room)};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

rdma::SocketAddress Socket::local() const { return address_by(getsockname, fd_); }
rdma::SocketAddress Socket::peer() const { return address_by(getpeername, fd_); }

Socket listen_on(std::uint16_t port, bool loopback_only) {
  const auto at =
      loopback_only ? rdma::SocketAddress::of("127.0.0.1", port) : rdma::SocketAddress::any(port);
  Socket listener{socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const std::string name = fmt::format("TCP port {}", port);
  if (listener.fd() < 0) fail("socket", name, errno);
  const int on = 1, off = 0;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (at.family() == AF_INET6) {
    setsockopt(listener.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(listener.fd(), at.raw(), at.size()) != 0) {
    fail("bind", name + " (another program may have it; choose one by --port)", errno);
  }
  if (listen(listener.fd(), 64) != 0) fail("listen", name, errno);
  return listener;
}

Socket accept_from(const Socket& listener, rdma::Deadline until) {
  const std::string name = listener.local().to_string();
  while (wait_for(listener.fd(), POLLIN, until)) {
    Socket taken{accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (taken.fd() >= 0) {
      const int on = 1;
      setsockopt(taken.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return taken;
    }
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) fail("accept", name, errno);
  }
  throw Failed{fmt::format("accept: {}: the other end didn't connect in time", name)};
}

Socket connect_to(const rdma::SocketAddress& to, rdma::Deadline until) {
  Socket socket{::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (socket.fd() < 0) fail("socket", to.to_string(), errno);
  int code = connect(socket.fd(), to.raw(), to.size()) == 0 ? 0 : errno;
  if (code == EINPROGRESS) {
    socklen_t size = sizeof code;
    if (!wait_for(socket.fd(), POLLOUT, until)) {
      code = ETIMEDOUT;
    } else {
      getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &code, &size);
    }
  }
  if (code != 0) {
    throw Unreachable{fmt::format(
        "connect: {}: {}; start \"verbena bench server\" on that host, and check that no firewall "
        "is in between",
        to.to_string(), std::strerror(code))};
  }
  fcntl(socket.fd(), F_SETFL, fcntl(socket.fd(), F_GETFL) & ~O_NONBLOCK);
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return socket;
}

void Control::send_frame(char kind, std::string_view message) {
  std::string frame(5, kind);
  const std::uint32_t length = htonl(static_cast<std::uint32_t>(message.size()));
  std::memcpy(frame.data() + 1, &length, sizeof length);
  frame += message;
  const rdma::Deadline until = kPatience;
  for (std::string_view rest = frame; !rest.empty();) {
    const ssize_t n = ::send(socket_.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.fd(), POLLOUT, until)) {
        fail("send", socket_.peer().to_string(), ETIMEDOUT);
      }
    } else if (errno != EINTR) {
      throw Failed{errno == EPIPE || errno == ECONNRESET ? kGone : std::strerror(errno)};
    }
  }
}

void Control::send_failure(std::string_view why) noexcept {
  try {
    send_frame('f', why.substr(0, kLongest));
  } catch (...) {  // it is gone, and learns of our end by the end of the connection
  }
}

void Control::send_skip(std::string_view why) noexcept {
  try {
    send_frame('s', why.substr(0, kLongest));
  } catch (...) {
  }
}

void Control::recv_bytes(char* to, std::size_t size, rdma::Deadline until) {
  while (size > 0) {
    const ssize_t n = ::recv(socket_.fd(), to, size, MSG_DONTWAIT);
    if (n > 0) {
      to += n;
      size -= static_cast<std::size_t>(n);
    } else if (n == 0 || errno == ECONNRESET) {
      throw Failed{kGone};
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.fd(), POLLIN, until)) {
        throw Failed{
            "the other end of the measurement doesn't answer; a server measures with one client at "
            "a time"};
      }
    } else if (errno != EINTR) {
      fail("recv", "the other end of the measurement", errno);
    }
  }
}

std::string Control::recv(rdma::Deadline until) {
  std::array<char, 5> head{};
  recv_bytes(head.data(), head.size(), until);
  std::uint32_t length = 0;
  std::memcpy(&length, head.data() + 1, sizeof length);
  length = ntohl(length);
  if (length > kLongest || (head[0] != 'm' && head[0] != 'f' && head[0] != 's')) {
    throw Failed{"what answers is no end of \"verbena bench\"; check host and port"};
  }
  std::string message(length, '\0');
  recv_bytes(message.data(), length, until);
  if (head[0] == 'f') throw Failed{"at the other end: " + message};
  if (head[0] == 's') throw Skipped{"at the other end: " + message};
  return message;
}

rdma::ConnInfo Control::exchange(const rdma::ConnInfo& ours) {
  const auto wire = ours.encode();
  send({reinterpret_cast<const char*>(wire.data()), wire.size()});
  const std::string theirs = recv();
  rdma::ConnInfo::Wire bytes{};
  if (theirs.size() == bytes.size()) {
    std::memcpy(bytes.data(), theirs.data(), bytes.size());
    if (const auto info = rdma::ConnInfo::decode(bytes)) return *info;
  }
  throw Failed{"the other end sent no address of a queue pair; are both of one version?"};
}

void Control::barrier() {
  send(kBarrier);
  if (recv() != kBarrier) throw Failed{"the ends disagree; are both of one version?"};
}

bool Control::is_readable() const {
  return wait_for(socket_.fd(), POLLIN, std::chrono::seconds{0});
}

void Control::check_alive() {
  if (!is_readable()) return;
  const std::string unexpected = recv();
  throw Failed{fmt::format("the other end said \"{}\" at a wrong time; are both of one version?",
                           unexpected.substr(0, 60))};
}

}  // namespace verbena::bench
