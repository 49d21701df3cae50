#include "registry/names.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <sstream>

#include "base/numbers.h"
#include "system/kernel_calls.h"
#include "system/random.h"
#include "system/system_error.h"

namespace verbena::registry {
namespace {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t size = 0;

  explicit UnixAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    // A leading zero byte makes the name abstract.
    std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), kMaxName));
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  static constexpr std::size_t kMaxName = sizeof(sockaddr_un::sun_path) - 1;
};

Fd seqpacket() {
  return Fd{kernel::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
}

/// nullopt: not readable.
std::optional<std::string> read_all(const char* path) {
  const Fd fd{::open(path, O_RDONLY | O_CLOEXEC)};
  if (!fd) return std::nullopt;
  std::string text;
  std::array<char, 16'384> piece;
  for (;;) {
    const auto got = kernel::read(fd.get(), piece.data(), piece.size());
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

constexpr std::uint32_t kNoUser = UINT32_MAX;  // the kernel gives it to nobody
constexpr std::uint32_t kUsualOverflow = 65'534;

std::uint32_t overflow_user() {
  const auto text = read_all("/proc/sys/kernel/overflowuid").value_or("");
  std::uint32_t user = kUsualOverflow;
  std::from_chars(text.data(), text.data() + text.size(), user);
  return user;
}

/// kNoUser: see check_user(). Kept, because it is needed where no descriptor is free.
std::uint32_t outer_user() {
  static std::atomic<std::uint64_t> known{UINT64_MAX};  // ours in the upper half, then the outer
  const std::uint32_t user = ::geteuid();
  const std::uint64_t last = known;
  if (last >> 32 == user) return static_cast<std::uint32_t>(last);
  const auto map = read_all("/proc/self/uid_map");
  if (!map) return user == kUsualOverflow ? kNoUser : user;  // /proc isn't mounted
  const std::uint32_t outer = user_outside(*map, user, overflow_user()).value_or(kNoUser);
  known = std::uint64_t{user} << 32 | outer;
  return outer;
}

std::string prefix() { return "verbena." + std::to_string(outer_user()) + "."; }

std::vector<std::uint32_t> slots_by_connecting() {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    const auto connection = connect_to_slot(slot);
    if (connection || connection.error().code == EAGAIN) slots.push_back(slot);
  }
  return slots;
}

}  // namespace

std::optional<std::uint32_t> user_outside(std::string_view uid_map, std::uint32_t user,
                                          std::uint32_t overflow) {
  std::optional<std::uint32_t> outside;
  bool everybody = false;
  std::istringstream lines{std::string{uid_map}};
  for (std::uint64_t first = 0, outer = 0, count = 0; lines >> first >> outer >> count;) {
    if (user >= first && user - first < count) {
      outside = static_cast<std::uint32_t>(outer + (user - first));
    }
    everybody = everybody || count >= UINT32_MAX;
  }
  return user != overflow || everybody ? outside : std::nullopt;
}

Status check_user() {
  if (outer_user() != kNoUser) return Ok{};
  return Error{EPERM, "registry: this user namespace numbers user " + std::to_string(::geteuid()) +
                          " as it does users who aren't mapped into it, so other users' processes "
                          "look like ours; map the user (`unshare --user --map-current-user`)"};
}

std::string registry_name(std::uint32_t slot) { return prefix() + std::to_string(slot); }
std::string founder_name() { return prefix() + "founder"; }

Result<Fd> claim_name(const std::string& name) {
  Fd fd = seqpacket();
  if (!fd) return system_error(errno, "socket for the registry");
  const UnixAddress address{name};
  if (kernel::bind(fd.get(), address.get(), address.size) != 0) {
    return system_error(errno, "bind of the registry's name @" + name);
  }
  return fd;
}

std::optional<PeerIdentity> trusted_peer(const Fd& connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (kernel::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != ::geteuid() || outer_user() == kNoUser) {
    return std::nullopt;
  }
  return PeerIdentity{peer.pid};
}

Result<Fd> connect_to_slot(std::uint32_t slot) {
  const auto name = registry_name(slot);
  Fd fd = seqpacket();
  if (!fd) return system_error(errno, "socket for the registry");
  const UnixAddress address{name};
  if (kernel::connect(fd.get(), address.get(), address.size) != 0) {
    return system_error(errno, "connect to @" + name);
  }
  if (!trusted_peer(fd)) {
    return system_error(EPERM, "connect to @" + name + ": held by another user");
  }
  return fd;
}

std::vector<std::uint32_t> slots_in(std::string_view text) {
  const auto marker = "@" + prefix();
  std::vector<std::uint32_t> slots;
  for (std::size_t at = text.find(marker); at != text.npos; at = text.find(marker, at + 1)) {
    const char* first = text.data() + at + marker.size();
    std::uint32_t slot = 0;
    const auto parsed = std::from_chars(first, text.data() + text.size(), slot);
    const bool whole = parsed.ptr == text.data() + text.size() || *parsed.ptr == '\n';
    if (parsed.ec == std::errc{} && whole && slot > 0 && slot < Qpn::kSlots) {
      slots.push_back(slot);
    }
  }
  // Accepted connections carry the name of their listener.
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

std::vector<std::uint32_t> live_slots() {
  // thread-self: a thread may have a network namespace of its own.
  const auto listing = read_all("/proc/thread-self/net/unix");
  auto slots = listing ? slots_in(*listing) : slots_by_connecting();
  std::shuffle(slots.begin(), slots.end(), SystemRandom{});
  return slots;
}

}  // namespace verbena::registry
