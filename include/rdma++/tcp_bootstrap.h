// The other way to meet: a TCP socket over which two programs tell each other their ConnInfo.
//
//   TcpBootstrap tcp = server ? TcpBootstrap::accept(7471) : TcpBootstrap::connect(host, 7471);
//   qp.connect(tcp.exchange(qp.info()));
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "rdma++/conn_info.h"
#include "rdma++/deadline.h"
#include "rdma++/error.h"
#include "rdma++/socket_address.h"
#include "rdma++/value.h"

namespace rdma {

/// A connected socket. Every call waits for `timeout` at most and throws TimedOut then.
class TcpBootstrap {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kTimeout{30'000};
  static constexpr Timeout kRetryPause{20};

  /// Waits for one peer; a second one is refused, because nobody listens any more.
  [[nodiscard]] static TcpBootstrap accept(std::uint16_t port, Timeout timeout = kTimeout);
  /// Tries again until somebody listens.
  [[nodiscard]] static TcpBootstrap connect(const std::string& host, std::uint16_t port,
                                            Timeout timeout = kTimeout);

  TcpBootstrap(TcpBootstrap&& other) noexcept
      : fd_{std::exchange(other.fd_, -1)},
        peer_{std::move(other.peer_)},
        timeout_{other.timeout_} {}
  TcpBootstrap& operator=(TcpBootstrap&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(peer_, other.peer_);
    timeout_ = other.timeout_;
    return *this;
  }
  ~TcpBootstrap() {
    if (fd_ >= 0) close(fd_);
  }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// Where this end is: where the peer reaches this machine.
  [[nodiscard]] SocketAddress local() const {
    SocketAddress address = SocketAddress::any(0);
    socklen_t size = address.size();
    if (getsockname(fd_, address.raw(), &size) != 0) throw Error{"getsockname", peer_, errno};
    return address;
  }

  /// Gives ours, takes theirs.
  [[nodiscard]] ConnInfo exchange(const ConnInfo& ours) {
    send_bytes(ours.encode());
    ConnInfo::Wire wire;
    recv_bytes(wire);
    if (const auto theirs = ConnInfo::decode(wire)) return *theirs;
    throw Error{"TcpBootstrap", peer_, EBADMSG, "what the peer sent is no ConnInfo"};
  }
  template <Value T>
  void send_value(const T& value) {
    send_bytes(std::as_bytes(std::span{&value, 1}));
  }
  template <Value T>
  [[nodiscard]] T recv_value() {
    std::array<std::byte, sizeof(T)> bytes;
    recv_bytes(bytes);
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  /// Returns when both sides have called it.
  void barrier() {
    send_value(kBarrier);
    if (recv_value<std::uint8_t>() != kBarrier) {
      throw Error{"TcpBootstrap", peer_, EBADMSG,
                  "both sides must call barrier() at the same point"};
    }
  }

  void send_bytes(std::span<const std::byte> bytes) {
    const Deadline until = timeout_;
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent >= 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
      } else {
        wait("send", POLLOUT, until);
      }
    }
  }
  void recv_bytes(std::span<std::byte> bytes) { recv_bytes(bytes, timeout_); }
  void recv_bytes(std::span<std::byte> bytes, Deadline until) {
    while (!bytes.empty()) {
      const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got == 0) throw Error{"recv", peer_, ECONNRESET, "the peer closed the bootstrap socket"};
      if (got > 0) {
        bytes = bytes.subspan(static_cast<std::size_t>(got));
      } else {
        wait("recv", POLLIN, until);
      }
    }
  }

 private:
  friend class TcpListener;
  static constexpr std::uint8_t kBarrier = 0xb7;

  TcpBootstrap(int fd, std::string peer, Timeout timeout)
      : fd_{fd}, peer_{std::move(peer)}, timeout_{timeout} {}

  /// 0 or an errno value.
  [[nodiscard]] int connect_to(const SocketAddress& to, Deadline until) const {
    if (::connect(fd_, to.raw(), to.size()) == 0) return 0;
    if (errno != EINPROGRESS) return errno;
    pollfd waiting{.fd = fd_, .events = POLLOUT, .revents = 0};
    int ready = 0;
    do {
      ready = poll(&waiting, 1, until.poll_timeout());
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) return errno;
    if (ready == 0) return ETIMEDOUT;
    int code = 0;
    socklen_t size = sizeof code;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
    return code;
  }
  /// After a call that failed: returns when it is worth trying again.
  void wait(const char* call, short events, Deadline until) const {
    if (errno == EINTR) return;
    if (errno != EAGAIN) throw Error{call, peer_, errno};
    pollfd waiting{.fd = fd_, .events = events, .revents = 0};
    if (poll(&waiting, 1, until.poll_timeout()) == 0) throw TimedOut{call, peer_};
  }

  int fd_;
  std::string peer_;
  Timeout timeout_;
};

/// For several peers, one after the other.
class TcpListener {
 public:
  /// Of 0: any free port. On every address, IPv4 and IPv6.
  explicit TcpListener(std::uint16_t port) {
    const SocketAddress at = SocketAddress::any(port);
    fd_ = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd_ < 0) throw Error{"socket", "", errno};
    const int on = 1, off = 0;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd_, at.raw(), at.size()) != 0 || listen(fd_, 64) != 0) {
      const int code = errno;
      close(fd_);
      throw Error{"listen", concat("TCP port ", port), code};
    }
  }
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;
  ~TcpListener() { close(fd_); }

  [[nodiscard]] std::uint16_t port() const {
    SocketAddress at = SocketAddress::any(0);
    socklen_t size = at.size();
    getsockname(fd_, at.raw(), &size);
    return at.port();
  }
  [[nodiscard]] TcpBootstrap accept(TcpBootstrap::Timeout timeout = TcpBootstrap::kTimeout) {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    const Deadline until = timeout;
    int ready = 0;
    do {
      ready = poll(&waiting, 1, until.poll_timeout());
    } while (ready < 0 && errno == EINTR);
    if (ready < 0) throw Error{"poll", concat("TCP port ", port()), errno};
    if (ready == 0) {
      throw TimedOut{"accept", concat("TCP port ", port()), "nobody connected"};
    }
    SocketAddress from = SocketAddress::any(0);
    socklen_t size = from.size();
    const int fd = accept4(fd_, from.raw(), &size, SOCK_CLOEXEC);
    if (fd < 0) throw Error{"accept", concat("TCP port ", port()), errno};
    return {fd, from.to_string(), timeout};
  }

 private:
  int fd_;
};

inline TcpBootstrap TcpBootstrap::accept(std::uint16_t port, Timeout timeout) {
  return TcpListener{port}.accept(timeout);
}

inline TcpBootstrap TcpBootstrap::connect(const std::string& host, std::uint16_t port,
                                          Timeout timeout) {
  const Deadline until = timeout;
  const SocketAddress to = SocketAddress::of(host, port);
  while (true) {
    TcpBootstrap result{socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                        to.to_string(), timeout};
    if (result.fd_ < 0) throw Error{"socket", "", errno};
    const int code = result.connect_to(to, until);
    if (code == 0) return result;
    if (code != ECONNREFUSED) throw Error{"connect", result.peer_, code};
    if (until.passed()) throw TimedOut{"connect", result.peer_, "nobody listens there"};
    std::this_thread::sleep_for(kRetryPause);  // no event tells when somebody begins to listen
  }
}

}  // namespace rdma
