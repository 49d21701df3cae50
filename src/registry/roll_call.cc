#include "registry/roll_call.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "registry/control_message.h"
#include "registry/names.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"

namespace verbena::registry {
namespace {

/// One that was asked.
struct Asked {
  Presence presence;
  Fd connection;
  enum class State : std::uint8_t { waited_for, done, gone } state = State::waited_for;
};

/// No queue pair has a lower number.
constexpr std::uint32_t kFirstQueuePair = 1;
/// At most 4096 queue pairs of a process are listed; it may have 12288.
constexpr std::size_t kMostParts = 64;

bool request(const Asked& asked, std::uint32_t queue_pairs) {
  const ControlHeader header{.kind = ControlKind::account_request, .queue_pairs = queue_pairs};
  return kernel::send(asked.connection.get(), &header, sizeof header, MSG_NOSIGNAL) >= 0;
}

std::optional<Asked> ask(std::uint32_t slot, Detail detail) {
  Asked asked{.presence = {.slot = slot, .pid = 0, .account = {}}, .connection = {}};
  auto connected = connect_to_slot(slot);
  if (!connected) {
    // It accepts no more: it has been stopped for a while.
    asked.state = Asked::State::done;
    return connected.error().code == EAGAIN ? std::optional{std::move(asked)} : std::nullopt;
  }
  asked.connection = std::move(connected).value();
  if (const auto peer = trusted_peer(asked.connection)) asked.presence.pid = peer->pid;
  if (!request(asked, detail == Detail::queue_pairs ? kFirstQueuePair : 0)) return std::nullopt;
  return asked;
}

/// Takes one message. What isn't an answer is passed over.
void hear(Asked& asked) {
  const int fd = asked.connection.get();
  const auto size = kernel::recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    // What it said before it ended is of no interest: it ends with the process.
    asked.state = Asked::State::gone;
    return;
  }
  ControlHeader header{};
  std::string text(static_cast<std::size_t>(size), '\0');
  std::array<iovec, 2> pieces{iovec{&header, sizeof header}, iovec{text.data(), text.size()}};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const auto got = kernel::recvmsg(fd, &message, MSG_DONTWAIT);
  if (got < static_cast<ssize_t>(sizeof header) || header.magic != ControlHeader::kMagic ||
      header.kind != ControlKind::account) {
    return;
  }
  text.resize(static_cast<std::size_t>(got) - sizeof header);
  Presence& presence = asked.presence;
  if (presence.account) {
    presence.parts.push_back(std::move(text));
  } else {
    presence.account = std::move(text);
  }
  const bool more = header.queue_pairs != 0 && presence.parts.size() < kMostParts;
  if (!more || !request(asked, header.queue_pairs)) asked.state = Asked::State::done;
}

/// False: nobody is waited for any more, or the time is up.
bool hear_some(std::vector<Asked>& all, Instant end) {
  std::vector<pollfd> waiting;
  std::vector<Asked*> whose;
  for (Asked& asked : all) {
    if (asked.state != Asked::State::waited_for) continue;
    waiting.push_back({asked.connection.get(), POLLIN, 0});
    whose.push_back(&asked);
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - monotonic_now()).count();
  if (waiting.empty() || left <= 0) return false;
  const int ready = kernel::poll(waiting.data(), waiting.size(), static_cast<int>(left));
  if (ready <= 0) return ready < 0 && errno == EINTR;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents != 0) hear(*whose[i]);
  }
  return true;
}

}  // namespace

std::vector<Presence> call_roll(Duration patience, Detail detail) {
  const Instant end = monotonic_now() + patience;
  auto slots = live_slots();
  std::sort(slots.begin(), slots.end());
  std::vector<Asked> all;
  for (const auto slot : slots) {
    if (auto asked = ask(slot, detail)) all.push_back(std::move(*asked));
  }
  while (hear_some(all, end)) {
  }
  std::vector<Presence> present;
  for (Asked& asked : all) {
    if (asked.state != Asked::State::gone) present.push_back(std::move(asked.presence));
  }
  return present;
}

}  // namespace verbena::registry
