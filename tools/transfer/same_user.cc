#include "tools/transfer/same_user.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace verbena::transfer {
namespace {

constexpr int kPatience = 2000;  // milliseconds, for a process of our own user
constexpr std::size_t kSecretSize = sizeof(Bytes32);
constexpr std::size_t kTicketSize = sizeof(std::uint32_t) + kSecretSize;

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address address_of(std::uint16_t port) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string name = fmt::format("verbena-receive-{}", port);
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());  // a zero first: abstract
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool is_ours(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

SameUserDoor::SameUserDoor(std::uint16_t port) {
  listener_ = Descriptor{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const Address address = address_of(port);
  if (!listener_ ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0 ||
      listen(listener_.get(), 16) != 0) {
    throw_errno(fmt::format(
        "port {}: the Unix socket of another verbena receive; give both ends --port", port));
  }
}

void SameUserDoor::answer() {
  std::erase_if(tickets_, [](const Ticket& ticket) { return is_gone(ticket.socket); });
  Ticket ticket;
  ticket.socket =
      Descriptor{accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!ticket.socket || !is_ours(ticket.socket.get())) return;
  const Bytes32 secret = random_bytes();
  ticket.secret.assign(secret.begin(), secret.end());
  ticket.number = ++last_number_;
  std::array<std::uint8_t, kTicketSize> text{};
  std::memcpy(text.data(), &ticket.number, sizeof ticket.number);
  std::ranges::copy(secret, text.begin() + sizeof ticket.number);
  if (send(ticket.socket.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(text.size())) {
    tickets_.push_back(std::move(ticket));
  }
}

std::optional<Ticket> SameUserDoor::take(std::uint32_t number) {
  const auto found = std::ranges::find(tickets_, number, &Ticket::number);
  if (number == 0 || found == tickets_.end()) return std::nullopt;
  Ticket ticket = std::move(*found);
  tickets_.erase(found);
  return ticket;
}

std::optional<Ticket> ask_same_user(std::uint16_t port) {
  Ticket ticket;
  ticket.socket = Descriptor{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  const Address address = address_of(port);
  if (!ticket.socket ||
      connect(ticket.socket.get(), reinterpret_cast<const sockaddr*>(&address.name),
              address.size) != 0) {
    return std::nullopt;
  }
  if (!is_ours(ticket.socket.get())) return std::nullopt;
  pollfd waiting{.fd = ticket.socket.get(), .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, kPatience) != 1) return std::nullopt;
  std::array<std::uint8_t, kTicketSize> text{};
  if (recv(ticket.socket.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return std::nullopt;
  }
  std::memcpy(&ticket.number, text.data(), sizeof ticket.number);
  ticket.secret.assign(text.begin() + sizeof ticket.number, text.end());
  return ticket;
}

bool is_gone(const Descriptor& socket) {
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  return socket && poll(&waiting, 1, 0) == 1;  // nothing is ever sent after the ticket
}

}  // namespace verbena::transfer
