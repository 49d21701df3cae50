#include "tools/doctor/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace verbena::doctor {
namespace {

[[noreturn]] void socket_failed(const std::string& call) {
  throw std::system_error{errno, std::generic_category(), call};
}

using SteadyClock = std::chrono::steady_clock;

/// True: `events` came in time.
bool wait_until_ready(int fd, short events, SteadyClock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now()).count();
    if (left < 0) return false;
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, static_cast<int>(left) + 1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

socklen_t Address::size() const { return is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> name{};
  if (is_v4()) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(bytes);
    inet_ntop(AF_INET, &in.sin_addr, name.data(), name.size());
    return name.data();
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(bytes);
  if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    inet_ntop(AF_INET, in.sin6_addr.s6_addr + 12, name.data(), name.size());
  } else {
    inet_ntop(AF_INET6, &in.sin6_addr, name.data(), name.size());
  }
  return name.data();
}

Address Address::at_port(std::uint16_t port) const {
  Address other = *this;
  // Both families have the port at the same place.
  reinterpret_cast<sockaddr_in&>(other.bytes).sin_port = htons(port);
  return other;
}

std::uint16_t Address::port() const {
  return ntohs(reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

Resolved resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    return {std::nullopt, gai_strerror(error)};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner{list, &freeaddrinfo};
  Address address;
  std::memcpy(&address.bytes, list->ai_addr, list->ai_addrlen);
  return {address, ""};
}

Route route_to(const Address& to) {
  const Socket socket{to.bytes.ss_family, SOCK_DGRAM};
  const Address target = to.at_port(kRocePort);
  if (connect(socket.fd(), target.get(), target.size()) != 0) return {{}, errno};
  return {name_of_socket(socket), 0};
}

Socket::Socket(int family, int type) : fd_{socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)} {
  if (fd_ < 0) socket_failed("socket");
}

Socket::~Socket() {
  if (fd_ >= 0) close(fd_);
}

bool Socket::set(int level, int option, int value) const {
  return setsockopt(fd_, level, option, &value, sizeof value) == 0;
}

Address wildcard(std::uint16_t port) {
  const int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Address any;
  any.bytes.ss_family = fd >= 0 ? AF_INET6 : AF_INET;
  if (fd >= 0) close(fd);
  return any.at_port(port);
}

Socket bound_socket(const Address& at, int type) {
  Socket socket{at.bytes.ss_family, type};
  if (type == SOCK_STREAM) socket.set(SOL_SOCKET, SO_REUSEADDR, 1);
  if (!at.is_v4()) socket.set(IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.fd(), at.get(), at.size()) != 0) {
    socket_failed(std::string{type == SOCK_STREAM ? "TCP" : "UDP"} + " port " +
                  std::to_string(at.port()));
  }
  return socket;
}

Address name_of_socket(const Socket& socket) {
  Address name;
  socklen_t size = sizeof name.bytes;
  if (getsockname(socket.fd(), name.get(), &size) != 0) socket_failed("getsockname");
  return name;
}

std::optional<PeerNews> peer_news_in(std::string_view line) {
  const auto news = nlohmann::json::parse(line, nullptr, false);
  if (!news.is_object()) return std::nullopt;
  try {
    if (news.at("verbena_doctor").get<int>() != 1) return std::nullopt;
    PeerNews told{news.at("you"), news.at("icrc_errors"), news.at("frames_received")};
    // It is printed to a terminal.
    const bool address = told.you.find_first_not_of("0123456789abcdef.:") == std::string::npos;
    return address ? std::optional{std::move(told)} : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

PeerAnswer ask_peer(const Address& to, std::chrono::milliseconds patience) {
  constexpr std::size_t kLongest = 4096;
  const auto until = SteadyClock::now() + patience;
  const Socket socket{to.bytes.ss_family, SOCK_STREAM};
  if (connect(socket.fd(), to.get(), to.size()) != 0 && errno != EINPROGRESS) {
    return {std::nullopt, errno == ECONNREFUSED};
  }
  if (!wait_until_ready(socket.fd(), POLLOUT, until)) return {};
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return {std::nullopt, error == ECONNREFUSED};
  std::string text;
  while (text.find('\n') == std::string::npos && text.size() < kLongest &&
         wait_until_ready(socket.fd(), POLLIN, until)) {
    std::array<char, 512> piece{};
    const ssize_t n = recv(socket.fd(), piece.data(), piece.size(), 0);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) break;
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
  }
  return {peer_news_in(text.substr(0, text.find('\n'))), false};
}

}  // namespace verbena::doctor
