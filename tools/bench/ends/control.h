#pragma once

// The TCP connection over which the two ends of a measurement agree: framed messages, and whether
// the other end is still there.

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rdma++/conn_info.h"
#include "rdma++/deadline.h"
#include "rdma++/socket_address.h"

namespace verbena::bench {

/// The measurement can't go on; the words are for the user.
class Failed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No server answers at all: further measurements would fail the same way.
class Unreachable : public Failed {
 public:
  using Failed::Failed;
};

/// This machine or device lacks something that the measurement needs.
class Skipped : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A TCP socket, closed with the object.
class Socket {
 public:
  explicit Socket(int fd) : fd_{fd} {}
  Socket(Socket&& other) noexcept : fd_{other.fd_} { other.fd_ = -1; }
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] rdma::SocketAddress local() const;
  [[nodiscard]] rdma::SocketAddress peer() const;

 private:
  int fd_;
};

/// Listens on every address, or on 127.0.0.1 only. Port 0: any free one. Throws Failed.
[[nodiscard]] Socket listen_on(std::uint16_t port, bool loopback_only);
/// Throws Failed if nobody comes by then.
[[nodiscard]] Socket accept_from(const Socket& listener, rdma::Deadline until);
/// Throws Unreachable.
[[nodiscard]] Socket connect_to(const rdma::SocketAddress& to, rdma::Deadline until);

/// Framed messages over a socket. All calls that wait throw Failed after `kPatience`, and if the
/// other end closes the connection or reports that it failed.
class Control {
 public:
  static constexpr std::chrono::seconds kPatience{15};

  explicit Control(Socket socket) : socket_{std::move(socket)} {}

  [[nodiscard]] const Socket& socket() const { return socket_; }

  void send(std::string_view message) { send_frame('m', message); }
  [[nodiscard]] std::string recv() { return recv(kPatience); }
  [[nodiscard]] std::string recv(rdma::Deadline until);

  /// Tells the other end why this one ends. Throws nothing: it may be gone.
  void send_failure(std::string_view why) noexcept;
  void send_skip(std::string_view why) noexcept;

  /// Gives ours, takes theirs.
  [[nodiscard]] rdma::ConnInfo exchange(const rdma::ConnInfo& ours);
  /// Returns when both ends have called it.
  void barrier();

  /// True if a message, or the end of the connection, can be read.
  [[nodiscard]] bool is_readable() const;
  /// For an end that waits for no message: throws if there is one, or the connection has ended.
  void check_alive();

 private:
  void send_frame(char kind, std::string_view message);
  void recv_bytes(char* to, std::size_t size, rdma::Deadline until);

  Socket socket_;
};

}  // namespace verbena::bench
