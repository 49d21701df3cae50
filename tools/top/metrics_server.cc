#include "tools/top/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "tools/top/http_request.h"

namespace verbena::top {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostClients = 128;
constexpr auto kTimeToAsk = std::chrono::seconds{3};
constexpr auto kTimeToRead = std::chrono::seconds{15};

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::runtime_error{fmt::format("{}: {}", what, std::strerror(errno))};
}

/// A connection: first it asks, then it reads, then it hangs up.
class Client {
 public:
  explicit Client(int fd) : fd_{fd} {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { close(fd_); }

  [[nodiscard]] pollfd wish() const {
    return {fd_, static_cast<short>(state_ == State::reads ? POLLOUT : POLLIN), 0};
  }
  [[nodiscard]] Clock::time_point deadline() const { return deadline_; }
  [[nodiscard]] bool done() const { return state_ == State::done; }

  void go_on(const std::function<std::string()>& metrics) {
    if (state_ == State::asks) receive(metrics);
    if (state_ == State::reads) send_some();
    if (state_ == State::hangs_up) discard();
  }
  void expire() {
    if (state_ == State::asks) {
      answer(too_slow());
      send_some();
    }
    state_ = State::done;
  }

 private:
  enum class State : std::uint8_t { asks, reads, hangs_up, done };

  void receive(const std::function<std::string()>& metrics) {
    std::array<char, 2048> bytes{};
    const auto got = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      state_ = State::done;
      return;
    }
    text_.append(bytes.data(), static_cast<std::size_t>(got));
    if (auto complete = answer_to(text_, metrics)) answer(std::move(*complete));
  }
  void answer(std::string text) {
    text_ = std::move(text);
    sent_ = 0;
    state_ = State::reads;
    deadline_ = Clock::now() + kTimeToRead;
  }
  void send_some() {
    while (sent_ < text_.size()) {
      const auto sent =
          send(fd_, text_.data() + sent_, text_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) {
        state_ = State::done;
        return;
      }
      sent_ += static_cast<std::size_t>(sent);
    }
    // Closing with bytes unread would reset the connection, and the answer with it.
    shutdown(fd_, SHUT_WR);
    state_ = State::hangs_up;
  }
  void discard() {
    std::array<char, 4096> bytes{};
    const auto got = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) state_ = State::done;
  }

  int fd_;
  State state_ = State::asks;
  std::string text_;  // the request, then the answer
  std::size_t sent_ = 0;
  Clock::time_point deadline_ = Clock::now() + kTimeToAsk;
};

using Clients = std::vector<std::unique_ptr<Client>>;  // the oldest first

/// False: the process has no descriptor left.
bool accept_all(int listener, Clients& clients) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return errno != EMFILE && errno != ENFILE && errno != ENOMEM;
    if (clients.size() >= kMostClients) clients.erase(clients.begin());
    clients.push_back(std::make_unique<Client>(fd));
  }
}

int milliseconds_until(std::optional<Clock::time_point> when) {
  if (!when) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(0, left));
}

std::optional<Clock::time_point> first_deadline(const Clients& clients) {
  std::optional<Clock::time_point> first;
  for (const auto& client : clients) {
    if (!first || client->deadline() < *first) first = client->deadline();
  }
  return first;
}

}  // namespace

ListenAddress parse_listen_address(const std::string& text) {
  ListenAddress result;
  const auto colon = text.rfind(':');
  const std::string form =
      fmt::format("\"{}\" is no ADDRESS:PORT, such as 127.0.0.1:9464 or [::1]:9464", text);
  result.problem = form;
  if (colon == text.npos) return result;
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data() + colon + 1, end, port);
  if (problem != std::errc{} || rest != end || colon + 1 == text.size()) return result;
  std::string host = text.substr(0, colon);
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
    sockaddr_in address{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = four, .sin_zero = {}};
    std::memcpy(&result.address, &address, sizeof address);
    result.size = sizeof address;
    result.loopback = ntohl(four.s_addr) >> 24 == 127;
    result.problem.clear();
  } else if (host.size() > 2 && host.front() == '[' && host.back() == ']' &&
             inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &six) == 1) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(port);
    address.sin6_addr = six;
    std::memcpy(&result.address, &address, sizeof address);
    result.size = sizeof address;
    result.loopback = IN6_IS_ADDR_LOOPBACK(&six);
    result.problem.clear();
  }
  return result;
}

MetricsServer::MetricsServer(const ListenAddress& where)
    : listener_{socket(where.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)} {
  if (listener_ < 0) throw_errno("socket");
  const int one = 1;
  setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const auto* const address = reinterpret_cast<const sockaddr*>(&where.address);
  if (bind(listener_, address, where.size) != 0 || listen(listener_, SOMAXCONN) != 0) {
    const int problem = errno;
    close(listener_);
    errno = problem;
    throw_errno("can't listen there");
  }
}

MetricsServer::~MetricsServer() { close(listener_); }

std::string MetricsServer::address() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (own.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &own, sizeof four);
    inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return fmt::format("{}:{}", text.data(), ntohs(four.sin_port));
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &own, sizeof six);
  inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  return fmt::format("[{}]:{}", text.data(), ntohs(six.sin6_port));
}

void MetricsServer::serve(int stop, const std::function<std::string()>& metrics) {
  Clients clients;
  for (;;) {
    std::vector<pollfd> watched{{stop, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const auto& client : clients) watched.push_back(client->wish());
    const int ready =
        poll(watched.data(), watched.size(), milliseconds_until(first_deadline(clients)));
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    if (ready > 0 && watched[0].revents != 0) return;
    std::string page;  // made when it is needed, and then for all of this turn
    const auto once = [&] { return page.empty() ? page = metrics() : page; };
    for (std::size_t i = 0; ready > 0 && i < clients.size(); ++i) {
      if (watched[i + 2].revents != 0) clients[i]->go_on(once);
    }
    const auto now = Clock::now();
    for (const auto& client : clients) {
      if (!client->done() && client->deadline() <= now) client->expire();
    }
    std::erase_if(clients, [](const auto& client) { return client->done(); });
    if (ready > 0 && watched[1].revents != 0 && !accept_all(listener_, clients)) {
      if (clients.empty()) throw_errno("no descriptor is left for a client (ulimit -n)");
      clients.erase(clients.begin());
    }
  }
}

}  // namespace verbena::top
