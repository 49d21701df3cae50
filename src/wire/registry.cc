#include "wire/registry.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "wire/control_message.h"
#include "wire/registry_name.h"
#include "wire/system.h"

namespace verbena::wire {
namespace {

constexpr int kAnswerTimeoutMs = 100;  // a peer may be stopped in a debugger
constexpr int kRetryMs = 2;
constexpr Duration kFoundingTimeout = std::chrono::seconds{1};
constexpr int kBacklog = 128;

bool wait_readable(const Fd& fd, int milliseconds) {
  pollfd p{fd.get(), POLLIN, 0};
  return ::poll(&p, 1, milliseconds) == 1;
}

Fd descriptor_in(msghdr& message) {
  Fd received;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    if (c->cmsg_len == CMSG_LEN(sizeof fd)) std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
    received = Fd{fd};
  }
  return received;
}

/// The table as a peer hands it out; an empty Fd when it doesn't in time.
Fd ask_for_table(const Fd& connection) {
  const ControlHeader request{.kind = ControlKind::table_request};
  if (::send(connection.get(), &request, sizeof request, MSG_NOSIGNAL) < 0 ||
      !wait_readable(connection, kAnswerTimeoutMs)) {
    return {};
  }
  ControlHeader answer{};
  iovec piece{&answer, sizeof answer};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const auto got = ::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  Fd memfd = descriptor_in(message);
  const bool right = got == sizeof answer && answer.magic == ControlHeader::kMagic &&
                     answer.kind == ControlKind::table;
  return right ? std::move(memfd) : Fd{};
}

bool holds(const SharedTable& table, std::uint32_t slot) {
  return table.state(slot, monotonic_now()) == SharedTable::SlotState::held;
}

/// The table of a process that can't answer now: it is stopped, or it is this one. Works
/// where /proc shows the process, for its own user. `slot` is held by the process.
std::optional<SharedTable> borrow_table(int pid, std::uint32_t slot) {
  const auto folder = "/proc/" + std::to_string(pid) + "/fd/";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing{::opendir(folder.c_str()), ::closedir};
  if (!listing) return std::nullopt;
  const auto wanted = std::string{"/memfd:"} + SharedTable::kName;
  while (const dirent* entry = ::readdir(listing.get())) {
    const auto path = folder + entry->d_name;
    std::array<char, 64> target{};
    const auto size = ::readlink(path.c_str(), target.data(), target.size() - 1);
    if (size <= 0 || std::strncmp(target.data(), wanted.c_str(), wanted.size()) != 0) continue;
    Fd memfd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    if (!memfd) continue;
    auto table = SharedTable::map(std::move(memfd));
    if (table && holds(*table, slot)) return std::move(table).value();
  }
  return std::nullopt;
}

std::optional<SharedTable> table_from(const Fd& connection) {
  Fd memfd = ask_for_table(connection);
  if (!memfd) return std::nullopt;
  auto table = SharedTable::map(std::move(memfd));
  if (!table) return std::nullopt;
  return std::move(table).value();
}

struct Introduction {
  SharedTable table;
  Sponsor sponsor;
};

std::optional<Introduction> meet(std::uint32_t slot) {
  auto connected = connect_to_slot(slot);
  if (!connected) return std::nullopt;
  Fd connection = std::move(connected).value();
  const auto peer = trusted_peer(connection);
  if (!peer) return std::nullopt;

  std::optional<SharedTable> table;
  if (peer->pid != ::getpid()) table = table_from(connection);
  if (!table) table = borrow_table(peer->pid, slot);
  if (!table) return std::nullopt;
  return Introduction{std::move(*table), Sponsor{std::move(connection), slot}};
}

Result<Registration> register_in(SharedTable table, std::optional<Sponsor> sponsor) {
  auto claimed = claim_slot(table, monotonic_now());
  if (!claimed) return claimed.error();
  return Registration{std::move(table), claimed->slot, std::move(claimed->listener),
                      std::move(sponsor)};
}

/// Nobody answers: a new table, unless somebody else founds one at this moment. Called with
/// the peers that were there and didn't answer. nullopt: look again.
std::optional<Result<Registration>> found_registry(std::vector<std::uint32_t> silent) {
  const auto founder = claim_name(founder_name());
  if (!founder) return std::nullopt;
  auto present = live_slots();
  std::sort(present.begin(), present.end());
  std::sort(silent.begin(), silent.end());
  const bool newcomer =
      !std::includes(silent.begin(), silent.end(), present.begin(), present.end());
  if (newcomer) return std::nullopt;
  auto table = SharedTable::found();
  if (!table) return table.error();
  // The slot's name stands before the founder's falls: the next one finds us.
  return register_in(std::move(table).value(), std::nullopt);
}

}  // namespace

void bury_unseen_dead(SharedTable& table, Instant now) {
  std::vector<std::uint32_t> held;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    if (table.state(slot, now) == SharedTable::SlotState::held) held.push_back(slot);
  }
  if (held.empty()) return;
  // In this order: a slot is held only after its name is bound.
  const auto live = live_slots();
  for (const auto slot : held) {
    if (std::find(live.begin(), live.end(), slot) == live.end()) table.release(slot, now);
  }
}

std::vector<std::uint32_t> slots_to_try(const SharedTable& table, Instant now) {
  std::vector<std::uint32_t> free;
  std::vector<std::uint32_t> resting;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    switch (table.state(slot, now)) {
      case SharedTable::SlotState::free: free.push_back(slot); break;
      case SharedTable::SlotState::resting: resting.push_back(slot); break;
      case SharedTable::SlotState::held: break;
    }
  }
  std::shuffle(free.begin(), free.end(), SystemRandom{});
  std::sort(resting.begin(), resting.end(), [&table](auto a, auto b) {
    return table.rests_until(a) < table.rests_until(b);
  });
  free.insert(free.end(), resting.begin(), resting.end());
  return free;
}

Result<Claim> claim_slot(SharedTable& table, Instant now) {
  bury_unseen_dead(table, now);
  for (const auto slot : slots_to_try(table, now)) {
    auto claimed = claim_name(registry_name(slot));
    if (!claimed && claimed.error().code == EADDRINUSE) continue;
    if (!claimed) return claimed.error();
    Fd listener = std::move(claimed).value();
    // Before anybody can connect: whoever meets us finds the slot held.
    table.hold(slot);
    if (::listen(listener.get(), kBacklog) != 0) {
      return system_error(errno, "listen at @" + registry_name(slot));
    }
    return Claim{slot, std::move(listener)};
  }
  return Error{EAGAIN, "registry: all " + std::to_string(Qpn::kSlots - 1) +
                           " slots are held by processes in this network namespace "
                           "(`grep @verbena /proc/net/unix`); end some, or use another namespace"};
}

Result<Registration> join_registry() {
  const Instant give_up = monotonic_now() + kFoundingTimeout;
  for (;;) {
    auto peers = live_slots();
    for (const auto slot : peers) {
      if (auto met = meet(slot)) {
        return register_in(std::move(met->table), std::move(met->sponsor));
      }
    }
    if (auto founded = found_registry(std::move(peers))) return std::move(*founded);
    if (monotonic_now() >= give_up) {
      return Error{EBUSY, "registry: the process that holds @" + founder_name() +
                              " did not finish within 1 s; is it stopped in a debugger? "
                              "(`ss -xlp | grep verbena` shows it)"};
    }
    ::poll(nullptr, 0, kRetryMs);
  }
}

}  // namespace verbena::wire
