#include "wire/udp/reuseport_group.h"

#include <sys/socket.h>

#include <algorithm>

#include "packet/frame.h"
#include "registry/port_table.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "wire/udp/socket_address.h"

namespace verbena::wire {
namespace {

constexpr Duration kRenewalInterval = std::chrono::milliseconds{10};
constexpr int kAttachTries = 8;
// Beyond the members that the table knows: sockets that a child of a dead process still
// holds. A probe past the end does no harm.
constexpr std::size_t kSpareProbes = 2;

}  // namespace

ReuseportGroup::ReuseportGroup(registry::SharedTable& table, std::uint32_t own_slot,
                               LocalAddress local, int socket)
    : table_{table},
      own_slot_{own_slot},
      local_{local},
      socket_{socket},
      column_{table.column_of(local)} {
  if (column_) table_.join(*column_, own_slot_);
}

void ReuseportGroup::renew() {
  if (!column_) return;
  renewed_ = monotonic_now();
  attach();
  send_probes(socket_);
}

void ReuseportGroup::misdirected(Instant now) {
  if (now - renewed_ >= kRenewalInterval) renew();
}

bool ReuseportGroup::learned(const Probe& probe) {
  if (probe.nonce != table_.nonce()) return false;
  if (column_ && table_.learn(*column_, own_slot_, probe.index, probe.round)) attach();
  return true;
}

void ReuseportGroup::attach() {
  if (!column_) return;
  // Of two processes that attach at once, the one with the older table may come last: look
  // again afterwards.
  for (int i = 0; i < kAttachTries; ++i) {
    const auto generation = table_.generation();
    const auto members = table_.members(*column_);
    attach_steering(socket_, members, listeners(members));
    if (table_.generation() == generation) return;
  }
}

std::vector<ListenerRule> ReuseportGroup::listeners(
    std::span<const registry::GroupMember> members) const {
  std::vector<ListenerRule> found;
  for (const auto& listener : registry::listeners_at(table_, local_.address)) {
    const auto member =
        std::ranges::lower_bound(members, listener.slot, {}, &registry::GroupMember::slot);
    if (member == members.end() || member->slot != listener.slot) continue;
    const ServiceId service{listener.binding.space, listener.binding.port};
    found.push_back({static_cast<std::uint32_t>(service.value()), member->place});
  }
  return found;
}

void ReuseportGroup::send_probes(int socket) const {
  const auto count =
      std::min<std::size_t>(table_.place_bound(*column_) + kSpareProbes, Qpn::kSlots);
  const SocketAddress self{local_.address, packet::kRocePort, local_.interface};
  Probe probe{.round = table_.next_round(), .nonce = table_.nonce()};
  // Ascending: the answer that is right comes first.
  for (std::size_t index = 0; index < count; ++index) {
    probe.index = static_cast<std::uint16_t>(index);
    const auto bytes = probe.encode();
    (void)kernel::sendto(socket, bytes.data(), bytes.size(), MSG_DONTWAIT, self.get(), self.size());
  }
}

void ReuseportGroup::left() {
  if (!column_) return;
  table_.leave(*column_, own_slot_);
  if (table_.place_bound(*column_) == 0) return;
  const int family = local_.address.is_v4() ? AF_INET : AF_INET6;
  const Fd sender = Fd{kernel::socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (sender) send_probes(sender.get());
}

}  // namespace verbena::wire
