#pragma once

// Addresses, and the plain sockets beside the RDMA ones.

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::doctor {

/// The doctor's own port: of rdma_cm, TCP and UDP.
inline constexpr std::uint16_t kDoctorPort = 4792;
inline constexpr std::uint16_t kRocePort = 4791;

struct Address {
  sockaddr_storage bytes{};

  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  [[nodiscard]] socklen_t size() const;
  [[nodiscard]] bool is_v4() const { return bytes.ss_family == AF_INET; }
  /// Without the port. IPv4-mapped addresses as IPv4.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] Address at_port(std::uint16_t port) const;
  [[nodiscard]] std::uint16_t port() const;
};

/// A name or an address. `problem`: why there is none.
struct Resolved {
  std::optional<Address> address;
  std::string problem;
};
[[nodiscard]] Resolved resolve(const std::string& host);

/// The address from which packets to `to` leave. `error`: errno, or 0.
struct Route {
  Address local;
  int error = 0;
};
[[nodiscard]] Route route_to(const Address& to);

/// A descriptor of a socket; closed by the destructor.
class Socket {
 public:
  /// std::system_error: there is none.
  Socket(int family, int type);
  ~Socket();
  Socket(Socket&& other) noexcept : fd_{other.fd_} { other.fd_ = -1; }
  Socket& operator=(Socket&&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// False: errno says why.
  bool set(int level, int option, int value) const;

 private:
  int fd_;
};

/// Every address at `port` (0: one that is free), of both families where there is IPv6; or `at`
/// alone.
[[nodiscard]] Address wildcard(std::uint16_t port);
/// Bound. std::system_error: it can't be.
[[nodiscard]] Socket bound_socket(const Address& at, int type);
[[nodiscard]] Address name_of_socket(const Socket& socket);

// ------------------------------------------------------------------ asking HOST

/// What `verbena doctor --listen` on HOST says over TCP.
struct PeerNews {
  std::string you;  // our address as it sees it
  std::uint64_t icrc_errors = 0;
  std::uint64_t frames_received = 0;
};
/// `refused`: HOST is there, and nobody listens.
struct PeerAnswer {
  std::optional<PeerNews> news;
  bool refused = false;
};
[[nodiscard]] PeerAnswer ask_peer(const Address& to, std::chrono::milliseconds patience);
[[nodiscard]] std::optional<PeerNews> peer_news_in(std::string_view line);

}  // namespace verbena::doctor
