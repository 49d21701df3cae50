#include "registry/peers.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/numbers.h"
#include "registry/descriptor_passing.h"
#include "registry/names.h"
#include "system/kernel_calls.h"

namespace verbena::registry {
namespace {

constexpr int kEventsPerTurn = 64;
constexpr int kMessagesPerTurn = 64;
constexpr int kSendBuffer = 1 << 20;  // the kernel clamps it to net.core.wmem_max

Fd spare_descriptor() { return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

}  // namespace

Peers::Peers(std::uint32_t own_slot, Fd listener, int table_fd, std::span<std::uint8_t> memory,
             int epoll_fd)
    : own_slot_{own_slot},
      listener_{std::move(listener)},
      spare_{spare_descriptor()},
      table_fd_{table_fd},
      memory_{memory},
      epoll_fd_{epoll_fd} {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener_.get();
  kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listener_.get(), &event);
}

void Peers::adopt(Fd connection, std::uint32_t slot) {
  const ControlHeader hello{.kind = ControlKind::hello, .slot = own_slot_};
  kernel::setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  (void)kernel::send(connection.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
  by_slot_[slot] = watch(std::move(connection), slot);
}

int Peers::watch(Fd fd, std::uint32_t slot) {
  const int number = fd.get();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = number;
  kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, number, &event);
  connections_[number] = Connection{std::move(fd), slot};
  return number;
}

Peers::Passed Peers::meet(std::uint32_t slot) {
  if (knows(slot)) return Passed::passed;
  auto connected = connect_to_slot(slot);
  if (!connected) {
    return connected.error().code == ECONNREFUSED ? Passed::no_owner : Passed::busy;
  }
  adopt(std::move(connected).value(), slot);
  return Passed::passed;
}

Peers::Passed Peers::pass(std::uint32_t slot, std::uint8_t wire, std::span<const std::uint8_t> head,
                          std::span<const std::uint8_t> body, std::span<const int> descriptors) {
  if (const Passed met = meet(slot); met != Passed::passed) return met;
  ControlHeader header{.kind = ControlKind::message, .wire = wire};
  const auto piece = [](std::span<const std::uint8_t> bytes) {
    return iovec{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  };
  std::array<iovec, 3> pieces{iovec{&header, sizeof header}, piece(head), piece(body)};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  DescriptorRoom room;
  room.send_with(message, descriptors);
  // A connection that broke is found by serve(), which then says who died.
  const auto sent = kernel::sendmsg(by_slot_.at(slot), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 ? Passed::passed : Passed::busy;
}

void Peers::serve(PeerEvents& events) {
  std::array<epoll_event, kEventsPerTurn> ready;
  const int count = kernel::epoll_wait(epoll_fd_, ready.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const int fd = ready[static_cast<std::size_t>(i)].data.fd;
    if (fd == listener_.get()) {
      accept_all();
    } else {
      read(fd, events);
    }
  }
}

void Peers::accept_all() {
  for (;;) {
    Fd accepted{kernel::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    if (!accepted) {
      if (errno != EMFILE && errno != ENFILE) return;
      // Out of descriptors: turn the peer away, or it would wake us for ever.
      spare_ = {};
      accepted = Fd{kernel::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
      const bool none = !accepted;
      accepted = {};
      spare_ = spare_descriptor();
      if (none || !spare_) return;
      continue;
    }
    if (trusted_peer(accepted)) watch(std::move(accepted), 0);
  }
}

void Peers::read(int fd, PeerEvents& events) {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    ControlHeader header{};
    std::array<iovec, 2> pieces{iovec{&header, sizeof header},
                                iovec{memory_.data(), memory_.size()}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    DescriptorRoom room;
    room.receive_with(message);
    const auto got = kernel::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      lost(fd, events);
      return;
    }
    auto descriptors = DescriptorRoom::received(message);
    const bool readable =
        static_cast<std::size_t>(got) >= sizeof header && header.magic == ControlHeader::kMagic;
    if (readable) {
      handle(found->second, header, static_cast<std::size_t>(got) - sizeof header, descriptors,
             events);
    }
  }
}

void Peers::handle(Connection& connection, const ControlHeader& header, std::size_t bytes,
                   std::span<Fd> descriptors, PeerEvents& events) {
  switch (header.kind) {
    case ControlKind::hello:
      if (header.slot == 0 || header.slot >= Qpn::kSlots || connection.slot != 0) return;
      connection.slot = header.slot;
      by_slot_.emplace(header.slot, connection.fd.get());
      return;
    case ControlKind::table_request:
      send_table(connection.fd.get());
      return;
    case ControlKind::message:
      events.message({.from = connection.slot,
                      .wire = header.wire,
                      .bytes = memory_.first(bytes),
                      .descriptors = descriptors});
      return;
    case ControlKind::account_request:
      send_account(connection.fd.get(), events.account());
      return;
    case ControlKind::table:
    case ControlKind::account:
      return;  // nobody asked
  }
}

void Peers::send_table(int fd) const {
  ControlHeader answer{.kind = ControlKind::table};
  iovec piece{&answer, sizeof answer};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  DescriptorRoom room;
  room.send_with(message, std::span{&table_fd_, 1});
  (void)kernel::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Peers::send_account(int fd, std::string text) {
  ControlHeader header{.kind = ControlKind::account};
  std::array<iovec, 2> pieces{iovec{&header, sizeof header}, iovec{text.data(), text.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  (void)kernel::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);  // who doesn't read gets none
}

void Peers::lost(int fd, PeerEvents& events) {
  const std::uint32_t slot = connections_.at(fd).slot;
  const auto named = by_slot_.find(slot);
  const bool was_the_one = named != by_slot_.end() && named->second == fd;
  drop(fd);
  if (!was_the_one) return;
  // A dying process closes its descriptors one by one: if its name still stands, go on
  // watching. That connection hangs up in its turn.
  if (auto again = connect_to_slot(slot)) {
    adopt(std::move(again).value(), slot);
  } else if (again.error().code == ECONNREFUSED) {
    events.peer_died(slot);
  }
}

void Peers::drop(int fd) {
  const auto found = connections_.find(fd);
  const auto named = by_slot_.find(found->second.slot);
  if (named != by_slot_.end() && named->second == fd) by_slot_.erase(named);
  kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  connections_.erase(found);
}

void Peers::close() {
  // The name first: whoever sees a hang-up then finds it gone.
  listener_.reset();
  spare_.reset();
  connections_.clear();
  by_slot_.clear();
}

}  // namespace verbena::registry
