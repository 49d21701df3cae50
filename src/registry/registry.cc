#include "registry/registry.h"

#include <sys/epoll.h>

#include <cerrno>
#include <utility>

#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "system/system_error.h"

namespace verbena::registry {

class Registry::Events final : public PeerEvents {
 public:
  /// `visitors` is null where nobody can come.
  Events(Registry& registry, Visitors* visitors) : registry_{registry}, visitors_{visitors} {}

  void message(const PeerMessage& message) override { visitors_->message(message); }
  void peer_died(std::uint32_t slot, Tenancy tenancy) override { registry_.died(slot, tenancy); }
  Account account(std::uint32_t queue_pairs) override { return visitors_->account(queue_pairs); }

 private:
  Registry& registry_;
  Visitors* visitors_;
};

Result<std::unique_ptr<Registry>> Registry::join(std::span<std::uint8_t> memory) {
  if (memory.size() < kMessageBytes) {
    return Error{EINVAL, "registry: " + std::to_string(memory.size()) + " bytes of memory, " +
                             std::to_string(kMessageBytes) + " needed"};
  }
  Fd epoll{kernel::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) {
    return system_error(errno, "epoll_create1 for the registry",
                        "raise the limit of open files (ulimit -n) if it is reached");
  }
  auto registration = join_registry();
  if (!registration) return registration.error();
  return std::unique_ptr<Registry>{
      new Registry{std::move(registration).value(), std::move(epoll), memory.first(kMessageBytes)}};
}

Registry::Registry(Registration registration, Fd epoll, std::span<std::uint8_t> memory)
    : slot_{registration.slot},
      epoll_{std::move(epoll)},
      table_{std::move(registration.table)},
      ports_{table_, slot_},
      peers_{slot_, std::move(registration.listener), table_, memory, epoll_.get()} {
  if (registration.sponsor) {
    Sponsor& sponsor = *registration.sponsor;
    peers_.adopt(std::move(sponsor.connection), sponsor.slot, table_.tenancy(sponsor.slot));
  }
  meet_neighbours();
}

Registry::~Registry() {
  if (abandoned_) return;
  table_.release(slot_, monotonic_now());
  close();
}

Result<BoundPort> Registry::bind_port(const PortBinding& wanted) {
  const auto generation = table_.generation();
  auto bound = ports_.bind(wanted);
  // It may have found out that a process is dead.
  if (table_.generation() != generation) tell_members_changed();
  return bound;
}

Status Registry::listen_port(PortId id) {
  auto listens = ports_.listen(id);
  if (listens) tell_listeners_changed();
  return listens;
}

void Registry::release_port(PortId id) {
  if (ports_.release(id)) tell_listeners_changed();
}

bool Registry::pass(std::uint32_t slot, std::uint8_t wire, std::span<const std::uint8_t> head,
                    std::span<const std::uint8_t> body, std::span<const int> descriptors) {
  const Peers::Outcome outcome = peers_.pass(slot, wire, head, body, descriptors);
  // A frame may be for any slot, and most of them are free.
  if (outcome.dead != Tenancy::none) died(slot, outcome.dead);
  return outcome.passed == Peers::Passed::passed;
}

void Registry::serve(Visitors& visitors) {
  Events events{*this, &visitors};
  peers_.serve(events);
  if (std::exchange(neighbour_died_, false)) meet_neighbours();
}

void Registry::work(Instant now) {
  Events events{*this, nullptr};
  peers_.look_again(now, events);
  if (std::exchange(neighbour_died_, false)) meet_neighbours();
}

Instant Registry::next_deadline() const { return neighbour_died_ ? Instant{} : peers_.next_look(); }

void Registry::meet(std::uint32_t slot) {
  const Peers::Outcome met = peers_.meet(slot);
  // The caller knows of a process there. If nobody answers, it is dead, even if another process has
  // released its slot already.
  if (met.passed == Peers::Passed::no_owner) died(slot, met.dead);
}

void Registry::meet_neighbours() {
  const auto nearest = [this](std::uint32_t step) {
    for (std::uint32_t slot = (slot_ + step) % Qpn::kSlots; slot != slot_;
         slot = (slot + step) % Qpn::kSlots) {
      if (!table_.held(slot)) continue;
      const Peers::Outcome met = peers_.meet(slot);
      if (met.passed == Peers::Passed::passed) return;
      if (met.dead != Tenancy::none) died(slot, met.dead);
    }
  };
  nearest(1);
  nearest(Qpn::kSlots - 1);
}

void Registry::died(std::uint32_t slot, Tenancy tenancy) {
  for (Watcher* watcher : watchers_) watcher->member_died(slot);
  neighbour_died_ = true;
  if (table_.release(slot, tenancy, monotonic_now())) tell_members_changed();
}

void Registry::tell_members_changed() {
  for (Watcher* watcher : watchers_) watcher->members_changed();
}

void Registry::tell_listeners_changed() {
  for (Watcher* watcher : watchers_) watcher->listeners_changed();
}

void Registry::abandon() {
  abandoned_ = true;
  close();
}

void Registry::close() {
  peers_.close();
  table_.close();
  epoll_.reset();
}

}  // namespace verbena::registry
