#include "registry/joining.h"

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
#include <utility>
#include <vector>

#include "registry/control_message.h"
#include "registry/descriptor_passing.h"
#include "registry/names.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "system/random.h"
#include "system/system_error.h"

namespace verbena::registry {
namespace {

constexpr int kAnswerTimeoutMs = 100;  // a peer may be stopped in a debugger
constexpr int kRetryMs = 2;
constexpr Duration kFoundingTimeout = std::chrono::seconds{1};
constexpr int kBacklog = 128;

bool wait_readable(const Fd& fd, int milliseconds) {
  pollfd p{fd.get(), POLLIN, 0};
  return kernel::poll(&p, 1, milliseconds) == 1;
}

enum class Answer : std::uint8_t { given, refused, none_in_time };

/// Asks a peer for the table.
Answer ask_for_table(const Fd& connection, std::optional<SharedTable>& table) {
  const ControlHeader request{.kind = ControlKind::table_request};
  if (kernel::send(connection.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) {
    return Answer::refused;
  }
  if (!wait_readable(connection, kAnswerTimeoutMs)) return Answer::none_in_time;
  ControlHeader answer{};
  iovec piece{&answer, sizeof answer};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  DescriptorRoom room;
  room.receive_with(message);
  const auto got = kernel::recvmsg(connection.get(), &message, MSG_CMSG_CLOEXEC);
  Fd memfd = std::move(DescriptorRoom::received(message).front());
  const bool right = got == sizeof answer && answer.magic == ControlHeader::kMagic &&
                     answer.kind == ControlKind::table && memfd;
  if (!right) return Answer::refused;
  auto mapped = SharedTable::map(std::move(memfd));
  if (!mapped) return Answer::refused;
  table = std::move(mapped).value();
  return Answer::given;
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
  std::string wanted = "/memfd:";
  wanted += SharedTable::kName;
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

struct Meeting {
  std::optional<SharedTable> table;
  Sponsor sponsor;
  /// It lives, but won't give us the table: stopped and hidden, or another user's. One that
  /// just begins or ends its life is not silent; the next look shows what became of it.
  bool silent = false;
};

Meeting meet(std::uint32_t slot) {
  Meeting meeting;
  auto connected = connect_to_slot(slot);
  if (!connected) {
    meeting.silent = connected.error().code == EAGAIN || connected.error().code == EPERM;
    return meeting;
  }
  meeting.sponsor = {std::move(connected).value(), slot};
  const auto peer = trusted_peer(meeting.sponsor.connection);
  auto answer = Answer::none_in_time;  // ourselves: we are not in our own event loop
  if (peer && peer->pid != ::getpid()) {
    answer = ask_for_table(meeting.sponsor.connection, meeting.table);
  }
  if (peer && answer == Answer::none_in_time) meeting.table = borrow_table(peer->pid, slot);
  meeting.silent = !meeting.table && answer == Answer::none_in_time;
  return meeting;
}

/// A founder looks for names, not for tables: had the sponsor gone before our name stood,
/// somebody might have seen nobody and founded another table.
bool still_there(const Sponsor& sponsor) {
  const auto again = connect_to_slot(sponsor.slot);
  return again.ok() || again.error().code == EAGAIN;
}

Result<Registration> register_in(SharedTable table, std::optional<Sponsor> sponsor) {
  auto claimed = claim_slot(table, monotonic_now());
  if (!claimed) return claimed.error();
  return Registration{std::move(table), claimed->slot, std::move(claimed->listener),
                      std::move(sponsor)};
}

/// A new table, unless somebody is there but `silent`, or founds one at this moment.
/// nullopt: look again.
std::optional<Result<Registration>> found_registry(std::vector<std::uint32_t> silent) {
  const auto founder = claim_name(founder_name());
  if (!founder) return std::nullopt;
  std::sort(silent.begin(), silent.end());
  // Two looks: the listing is no snapshot, and may miss a joiner while its sponsor dies.
  for (int look = 0; look < 2; ++look) {
    auto present = live_slots();
    std::sort(present.begin(), present.end());
    const bool newcomer =
        !std::includes(silent.begin(), silent.end(), present.begin(), present.end());
    if (newcomer) return std::nullopt;
  }
  auto table = SharedTable::found();
  if (!table) return table.error();
  // The slot's name stands before the founder's falls: the next one finds us.
  return register_in(std::move(table).value(), std::nullopt);
}

}  // namespace

void bury_unseen_dead(SharedTable& table, Instant now) {
  std::vector<std::pair<std::uint32_t, Tenancy>> held;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    if (const auto tenancy = table.tenancy(slot); tenancy != Tenancy::none) {
      held.emplace_back(slot, tenancy);
    }
  }
  if (held.empty()) return;
  // In this order: a slot is held only after its name is bound.
  const auto live = live_slots();
  for (const auto& [slot, tenancy] : held) {
    if (std::find(live.begin(), live.end(), slot) == live.end()) table.release(slot, tenancy, now);
  }
}

std::vector<std::uint32_t> slots_to_try(const SharedTable& table, Instant now) {
  std::vector<std::uint32_t> free;
  std::vector<std::uint32_t> resting;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    switch (table.state(slot, now)) {
      case SharedTable::SlotState::free:
        free.push_back(slot);
        break;
      case SharedTable::SlotState::resting:
        resting.push_back(slot);
        break;
      case SharedTable::SlotState::held:
        break;
    }
  }
  std::shuffle(free.begin(), free.end(), SystemRandom{});
  std::sort(resting.begin(), resting.end(),
            [&table](auto a, auto b) { return table.rests_until(a) < table.rests_until(b); });
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
    if (kernel::listen(listener.get(), kBacklog) != 0) {
      return system_error(errno, "listen at @" + registry_name(slot));
    }
    // Before we listened, a connection was refused, as if we were dead.
    table.hold_anew(slot);
    return Claim{slot, std::move(listener)};
  }
  return Error{EAGAIN, "registry: all " + std::to_string(Qpn::kSlots - 1) +
                           " slots are held by processes in this network namespace "
                           "(`grep @verbena /proc/net/unix`); end some, or use another namespace"};
}

Result<Registration> join_registry() {
  if (Status told_apart = check_user(); !told_apart) return told_apart.error();
  const Instant give_up = monotonic_now() + kFoundingTimeout;
  for (;;) {
    std::vector<std::uint32_t> silent;
    for (const auto slot : live_slots()) {
      auto met = meet(slot);
      if (met.silent) silent.push_back(slot);
      if (!met.table) continue;
      auto registered = register_in(std::move(*met.table), std::move(met.sponsor));
      if (!registered || still_there(*registered->sponsor)) return registered;
      registered->table.release(registered->slot, monotonic_now());
      break;
    }
    if (auto founded = found_registry(std::move(silent))) return std::move(*founded);
    if (monotonic_now() >= give_up) {
      return Error{EBUSY, "registry: the process that holds @" + founder_name() +
                              " did not finish within 1 s; is it stopped in a debugger? "
                              "(`ss -xlp | grep verbena` shows it)"};
    }
    kernel::poll(nullptr, 0, kRetryMs);
  }
}

}  // namespace verbena::registry
