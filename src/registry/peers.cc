#include "registry/peers.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/numbers.h"
#include "registry/descriptor_passing.h"
#include "registry/names.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"

namespace verbena::registry {
namespace {

constexpr int kEventsPerTurn = 64;
constexpr int kMessagesPerTurn = 64;
constexpr int kSendBuffer = 1 << 20;  // the kernel clamps it to net.core.wmem_max

/// How soon to look again who has died.
constexpr Duration kLookAgain = std::chrono::milliseconds{20};
/// In place of the beginning of a connection that was just lost.
constexpr Instant kLooksAgain = Instant::min();

/// Nobody who is ours has the slot's name.
bool says_dead(const Error& error) { return error.code == ECONNREFUSED || error.code == EPERM; }

Fd spare_descriptor() { return Fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)}; }

}  // namespace

Peers::Peers(std::uint32_t own_slot, Fd listener, const SharedTable& table,
             std::span<std::uint8_t> memory, int epoll_fd)
    : own_slot_{own_slot},
      user_{::geteuid()},
      listener_{std::move(listener)},
      spare_{spare_descriptor()},
      table_{table},
      memory_{memory},
      epoll_fd_{epoll_fd} {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = listener_.get();
  kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listener_.get(), &event);
}

void Peers::adopt(Fd connection, std::uint32_t slot, Tenancy tenancy) {
  const auto own_tenancy = static_cast<std::uint64_t>(table_.tenancy(own_slot_));
  const ControlHeader hello{.kind = ControlKind::hello, .slot = own_slot_, .tenancy = own_tenancy};
  kernel::setsockopt(connection.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  (void)kernel::send(connection.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL);
  by_slot_[slot] = watch({std::move(connection), slot, tenancy, monotonic_now()});
  forget({slot, tenancy});
}

int Peers::watch(Connection connection) {
  const int number = connection.fd.get();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = number;
  kernel::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, number, &event);
  connections_[number] = std::move(connection);
  return number;
}

Peers::Outcome Peers::meet(std::uint32_t slot) {
  if (knows(slot)) return {Passed::passed};
  if (user_changed()) return {Passed::busy};
  // Before connecting: should the slot change hands meanwhile, nobody is taken for the wrong one.
  const Tenancy tenancy = table_.tenancy(slot);
  if (predecessor(slot, tenancy)) return {Passed::busy};  // look_again() tells of its death first
  auto connected = connect_to_slot(slot);
  if (connected) {
    adopt(std::move(connected).value(), slot, tenancy);
    return {Passed::passed};
  }
  if (says_dead(connected.error())) {
    forget({slot, tenancy});
    return {Passed::no_owner, tenancy};
  }
  if (tenancy != Tenancy::none) look_later({slot, tenancy});
  return {Passed::busy};
}

Peers::Outcome Peers::pass(std::uint32_t slot, std::uint8_t wire,
                           std::span<const std::uint8_t> head, std::span<const std::uint8_t> body,
                           std::span<const int> descriptors) {
  if (const Outcome met = meet(slot); met.passed != Passed::passed) return met;
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
  return {sent >= 0 ? Passed::passed : Passed::busy};
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
    if (trusted_peer(accepted)) watch({.fd = std::move(accepted), .since = monotonic_now()});
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
      handle_hello(connection, header, events);
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
      send_account(connection.fd.get(), events.account(header.queue_pairs));
      return;
    case ControlKind::table:
    case ControlKind::account:
      return;  // nobody asked
  }
}

void Peers::handle_hello(Connection& connection, const ControlHeader& header, PeerEvents& events) {
  if (header.slot == 0 || header.slot >= Qpn::kSlots || connection.slot != 0) return;
  // Believed: the processes of one user trust each other (docs/security.md). To check it, one
  // would connect to the slot's name and compare the pids of both ends, for each hello; the table,
  // which the sender can write, proves nothing.
  connection.slot = header.slot;
  connection.tenancy = Tenancy{header.tenancy};
  const auto dead = predecessor(header.slot, connection.tenancy);
  if (dead && connection.tenancy == table_.tenancy(header.slot)) {
    by_slot_.erase(dead->slot);
    forget(*dead);
    events.peer_died(dead->slot, dead->tenancy);
  }
  by_slot_.emplace(header.slot, connection.fd.get());
}

void Peers::send_table(int fd) const {
  const int table = table_.fd();
  ControlHeader answer{.kind = ControlKind::table};
  iovec piece{&answer, sizeof answer};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  DescriptorRoom room;
  room.send_with(message, std::span{&table, 1});
  (void)kernel::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Peers::send_account(int fd, Account account) {
  ControlHeader header{.kind = ControlKind::account, .queue_pairs = account.next};
  std::array<iovec, 2> pieces{iovec{&header, sizeof header},
                              iovec{account.text.data(), account.text.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  (void)kernel::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);  // who doesn't read gets none
}

void Peers::lost(int fd, PeerEvents& events) {
  const Connection& connection = connections_.at(fd);
  const Lost lost{connection.slot, connection.tenancy};
  const Instant since = connection.since;
  const auto named = by_slot_.find(lost.slot);
  const bool was_the_one = named != by_slot_.end() && named->second == fd;
  if (was_the_one) look_later(lost);  // even if memory runs out before we know
  drop(fd);
  if (was_the_one) find_out(lost, since, events);
}

std::optional<Peers::Lost> Peers::predecessor(std::uint32_t slot, Tenancy tenancy) const {
  const auto is_one = [&](const Lost& l) { return l.slot == slot && l.tenancy != tenancy; };
  if (const auto named = by_slot_.find(slot); named != by_slot_.end()) {
    const Lost known{slot, connections_.at(named->second).tenancy};
    return is_one(known) ? std::optional{known} : std::nullopt;
  }
  const auto found = std::ranges::find_if(lost_, is_one);
  return found != lost_.end() ? std::optional{*found} : std::nullopt;
}

bool Peers::user_changed() const { return ::geteuid() != user_; }

void Peers::find_out(Lost lost, Instant since, PeerEvents& events) {
  if (user_changed()) {  // then a hang-up is all that there is to go by
    forget(lost);
    if (since != kLooksAgain) events.peer_died(lost.slot, lost.tenancy);
    return;
  }
  auto again = connect_to_slot(lost.slot);
  if (!again && !says_dead(again.error())) return look_later(lost);
  const Tenancy tenancy = again ? table_.tenancy(lost.slot) : Tenancy::none;
  if (again && tenancy == lost.tenancy) {
    // A dying process closes its descriptors one by one: go on watching. That connection hangs up
    // in its turn; if it does so at once, the process turns us away, for want of descriptors.
    if (monotonic_now() < since + kLookAgain) return look_later(lost);
    adopt(std::move(again).value(), lost.slot, tenancy);
    return;
  }
  forget(lost);
  events.peer_died(lost.slot, lost.tenancy);
  if (again && !knows(lost.slot)) adopt(std::move(again).value(), lost.slot, tenancy);
}

void Peers::look_later(Lost lost) {
  if (std::ranges::find(lost_, lost) == lost_.end()) lost_.push_back(lost);
  next_look_ = std::min(next_look_, monotonic_now() + kLookAgain);
}

void Peers::forget(Lost lost) {
  std::erase(lost_, lost);
  if (lost_.empty()) next_look_ = kNever;
}

void Peers::look_again(Instant now, PeerEvents& events) {
  if (now < next_look_) return;
  next_look_ = now + kLookAgain;
  for (const Lost& lost : std::vector<Lost>{lost_}) find_out(lost, kLooksAgain, events);
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
  lost_.clear();
  next_look_ = kNever;
}

}  // namespace verbena::registry
