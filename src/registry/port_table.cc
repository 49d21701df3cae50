#include "registry/port_table.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "registry/joining.h"
#include "system/monotonic_now.h"
#include "system/random.h"

namespace verbena::registry {

/// What an overlapping binding of another means to what we are about to do.
enum class Verdict : std::uint8_t {
  harmless,
  undecided,  // it is about to do something that is in our way, or not
  taken,
};

namespace {

Verdict verdict_on_bind(const PortBinding& mine, const PortEntry& other) {
  const bool shared = mine.reuse && other.binding.reuse;
  switch (other.state) {
    case PortState::trying:
      return shared ? Verdict::harmless : Verdict::undecided;
    case PortState::bound:
      return shared ? Verdict::harmless : Verdict::taken;
    case PortState::preparing:
      return shared ? Verdict::undecided : Verdict::taken;
    case PortState::listening:
      return Verdict::taken;
    case PortState::free:
    case PortState::written:
      break;
  }
  return Verdict::harmless;
}

Verdict verdict_on_listen(const PortBinding&, const PortEntry& other) {
  switch (other.state) {
    case PortState::preparing:
      return Verdict::undecided;
    case PortState::listening:
      return Verdict::taken;
    case PortState::free:
    case PortState::written:
    case PortState::trying:
    case PortState::bound:
      break;
  }
  return Verdict::harmless;
}

std::string text_of(PortSpace space) {
  switch (space) {
    case PortSpace::ipoib:
      return "ipoib";
    case PortSpace::tcp:
      return "tcp";
    case PortSpace::udp:
      return "udp";
    case PortSpace::ib:
      return "ib";
  }
  return "space " + std::to_string(static_cast<unsigned>(space));
}

std::string place_of(const PortBinding& binding) {
  if (binding.address) return binding.address->text();
  switch (binding.family) {
    case Family::v4:
      return "every IPv4 address";
    case Family::v6:
      return "every IPv6 address";
    case Family::any:
      break;
  }
  return "every address";
}

std::string text_of(const PortBinding& binding) {
  return text_of(binding.space) + " port " + std::to_string(binding.port) + " at " +
         place_of(binding);
}

const char* deed_of(PortState state) {
  switch (state) {
    case PortState::listening:
      return "listens there";
    case PortState::preparing:
      return "is about to listen there";
    case PortState::trying:
      return "is about to bind it";
    case PortState::bound:
    case PortState::free:
    case PortState::written:
      break;
  }
  return "has bound it";
}

Error in_use(const char* call, const PortBinding& mine, const PortEntry& other) {
  return {EADDRINUSE, std::string{call} + " " + text_of(mine) + ": process " +
                          std::to_string(other.pid) + " (slot " + std::to_string(other.slot) +
                          ") " + deed_of(other.state) + ", at " + place_of(other.binding) +
                          "; end it, or use another port"};
}

Error full(const PortBinding& wanted) {
  return {ENOMEM, "bind " + text_of(wanted) + ": all " + std::to_string(PortMemory::kEntries) +
                      " places for ports are taken by the processes of this network namespace; "
                      "destroy ids that are no longer used, or use another namespace"};
}

constexpr int kGuesses = 8;

std::uint32_t own_pid() { return static_cast<std::uint32_t>(::getpid()); }

/// Calls `visit` with the index and contents of every entry that counts.
template <typename Visit>
void for_each_live(const SharedTable& table, Visit visit) {
  const PortMemory& ports = table.ports();
  for (std::size_t i = 0; i < ports.bound(); ++i) {
    const auto entry = ports.read(i);
    if (entry && table.held(entry->slot)) visit(i, *entry);
  }
}

/// The same for one port only.
template <typename Visit>
void for_each_live(const SharedTable& table, ServiceId service, Visit visit) {
  const PortMemory& ports = table.ports();
  for (std::size_t i = 0; i < ports.bound(); ++i) {
    // An entry that becomes this port's after this look will see ours.
    if (ports.service(i) != service.value()) continue;
    const auto entry = ports.read(i);
    if (entry && table.held(entry->slot)) visit(i, *entry);
  }
}

}  // namespace

/// From one lasting state to the next, by way of a trial that the others see.
struct PortTable::Step {
  const char* call;  // for messages
  PortState from, trial, to;
  Verdict (*verdict)(const PortBinding& mine, const PortEntry& other);
};

struct PortTable::Obstacle {
  std::size_t index = 0;
  PortEntry entry;
  bool lasting = false;  // a trial passes
};

PortTable::PortTable(SharedTable& table, std::uint32_t own_slot, std::optional<PortRange> ephemeral)
    : table_{table}, own_slot_{own_slot}, range_{ephemeral} {}

Result<BoundPort> PortTable::bind(const PortBinding& wanted) {
  const auto once = [&] { return wanted.port == 0 ? bind_ephemeral(wanted) : bind_to(wanted); };
  auto bound = once();
  if (bound) return bound;
  // What is in the way may belong to a process whose death nobody saw.
  bury_unseen_dead(table_, monotonic_now());
  return once();
}

Result<BoundPort> PortTable::bind_to(const PortBinding& wanted) {
  static constexpr Step kBind{"bind", PortState::written, PortState::trying, PortState::bound,
                              verdict_on_bind};
  auto claimed = claim(wanted);
  if (!claimed) return full(wanted);
  if (auto bound = advance(*claimed, kBind); !bound) {
    move_to(*claimed, PortState::free);
    return bound.error();
  }
  const auto id = static_cast<std::uint32_t>(claimed->index);
  own_.insert_or_assign(id, *claimed);
  return BoundPort{PortId{id}, wanted.port};
}

Result<BoundPort> PortTable::bind_alone(PortBinding wanted) {
  const bool reuse = std::exchange(wanted.reuse, false);
  auto bound = bind_to(wanted);
  if (bound && reuse) {
    Claim& mine = own_.at(static_cast<std::uint32_t>(bound->id));
    mine.binding.reuse = true;
    table_.ports().write(mine.index, mine.binding, own_pid());
  }
  return bound;
}

Result<BoundPort> PortTable::bind_ephemeral(PortBinding wanted) {
  if (!range_) range_ = ephemeral_ports();
  const auto port_at = [&](std::uint32_t i) {
    return static_cast<std::uint16_t>(range_->first + i % range_->count());
  };
  for (int guess = 0; guess < kGuesses; ++guess) {
    wanted.port = port_at(random_number<std::uint32_t>());
    auto bound = bind_alone(wanted);
    if (bound || bound.error().code != EADDRINUSE) return bound;
  }
  // Few are left: look for them.
  std::vector<bool> taken(1u << 16);
  for_each_live(table_, [&](std::size_t, const PortEntry& other) {
    wanted.port = other.binding.port;
    if (overlap(wanted, other.binding)) taken[wanted.port] = true;
  });
  const auto start = random_number<std::uint32_t>() % range_->count();
  for (std::uint32_t i = 0; i < range_->count(); ++i) {
    wanted.port = port_at(start + i);
    if (taken[wanted.port]) continue;
    auto bound = bind_alone(wanted);
    if (bound || bound.error().code != EADDRINUSE) return bound;
  }
  return Error{EADDRNOTAVAIL, "bind " + text_of(wanted.space) + " port 0 at " + place_of(wanted) +
                                  ": all of " + std::to_string(range_->first) + " to " +
                                  std::to_string(range_->last) +
                                  " are taken; widen net.ipv4.ip_local_port_range, or name a port"};
}

Status PortTable::listen(PortId id) {
  static constexpr Step kListen{"listen on", PortState::bound, PortState::preparing,
                                PortState::listening, verdict_on_listen};
  const auto found = own_.find(static_cast<std::uint32_t>(id));
  if (found == own_.end()) {
    return Error{
        EINVAL, "listen: no port is bound by id " + std::to_string(static_cast<std::uint32_t>(id))};
  }
  Claim& mine = found->second;
  if (mine.head.state == PortState::listening) return Ok{};
  auto listens = advance(mine, kListen);
  if (!listens) {
    bury_unseen_dead(table_, monotonic_now());
    listens = advance(mine, kListen);
  }
  if (listens) table_.listeners_changed();
  return listens;
}

bool PortTable::release(PortId id) {
  const auto found = own_.find(static_cast<std::uint32_t>(id));
  if (found == own_.end()) return false;
  const bool listened = found->second.head.state == PortState::listening;
  move_to(found->second, PortState::free);
  own_.erase(found);
  if (listened) table_.listeners_changed();
  return listened;
}

std::optional<PortTable::Claim> PortTable::claim(const PortBinding& wanted) {
  PortMemory& ports = table_.ports();
  for (std::size_t i = 0; i < PortMemory::kEntries; ++i) {
    std::uint64_t word = ports.entries[i].head;
    const auto before = PortHead::of(word);
    if (before.state != PortState::free && table_.held(before.slot)) continue;
    const PortHead head{own_slot_, PortState::written, before.claim + 1};
    if (!ports.entries[i].head.compare_exchange_strong(word, head.word())) continue;
    // Before anybody can have to see the entry.
    auto used = ports.used.load();
    const auto needed = static_cast<std::uint32_t>(i + 1);
    while (used < needed && !ports.used.compare_exchange_weak(used, needed)) {
    }
    ports.write(i, wanted, own_pid());
    return Claim{i, head, wanted};
  }
  return std::nullopt;
}

Status PortTable::advance(Claim& mine, const Step& step) {
  const Error damaged{EIO, std::string{step.call} + " " + text_of(mine.binding) +
                               ": the registry's table was overwritten; end all Verbena "
                               "processes of this network namespace"};
  const Instant give_up = monotonic_now() + kPatience;
  for (;;) {
    if (!move_to(mine, step.trial)) return damaged;
    auto obstacle = obstacle_to(mine, step);
    // The higher entry gives way, so that of two one gets on.
    while (obstacle && !obstacle->lasting && obstacle->index > mine.index &&
           monotonic_now() < give_up) {
      ::sched_yield();
      obstacle = obstacle_to(mine, step);
    }
    if (!move_to(mine, obstacle ? step.from : step.to)) return damaged;
    if (!obstacle) return Ok{};
    if (obstacle->lasting || monotonic_now() >= give_up) {
      return in_use(step.call, mine.binding, obstacle->entry);
    }
    ::sched_yield();
  }
}

std::optional<PortTable::Obstacle> PortTable::obstacle_to(const Claim& mine,
                                                          const Step& step) const {
  std::optional<Obstacle> found;
  const ServiceId service{mine.binding.space, mine.binding.port};
  for_each_live(table_, service, [&](std::size_t index, const PortEntry& other) {
    if (index == mine.index || !overlap(mine.binding, other.binding)) return;
    const auto verdict = step.verdict(mine.binding, other);
    if (verdict == Verdict::harmless || (found && verdict != Verdict::taken)) return;
    found = Obstacle{index, other, verdict == Verdict::taken};
  });
  return found;
}

bool PortTable::move_to(Claim& mine, PortState state) {
  std::uint64_t word = mine.head.word();
  PortHead next{state == PortState::free ? 0 : own_slot_, state, mine.head.claim};
  if (!table_.ports().entries[mine.index].head.compare_exchange_strong(word, next.word())) {
    return false;
  }
  mine.head = next;
  return true;
}

std::vector<Listener> listeners_at(const SharedTable& table, const IpAddress& address) {
  std::vector<Listener> found;
  for_each_live(table, [&](std::size_t, const PortEntry& entry) {
    if (entry.state == PortState::listening && covers(entry.binding, address)) {
      found.push_back({entry.slot, entry.binding});
    }
  });
  std::stable_partition(found.begin(), found.end(),
                        [](const Listener& l) { return l.binding.address.has_value(); });
  return found;
}

std::optional<std::uint32_t> listener_of(const SharedTable& table, ServiceId service,
                                         const IpAddress& address) {
  const auto space = service.space();
  if (!space) return std::nullopt;
  const PortBinding wanted{.space = *space, .port = service.port(), .address = address};
  std::optional<std::uint32_t> found;
  for_each_live(table, service, [&](std::size_t, const PortEntry& entry) {
    if (entry.state != PortState::listening || !overlap(wanted, entry.binding)) return;
    if (!found || entry.binding.address) found = entry.slot;
  });
  return found;
}

bool is_bound(const SharedTable& table, ServiceId service, const IpAddress& address) {
  const auto space = service.space();
  if (!space) return false;
  const PortBinding wanted{.space = *space, .port = service.port(), .address = address};
  bool found = false;
  for_each_live(table, service, [&](std::size_t, const PortEntry& entry) {
    found = found || (entry.state != PortState::trying && overlap(wanted, entry.binding));
  });
  return found;
}

std::vector<std::uint32_t> listening_slots(const SharedTable& table) {
  std::vector<std::uint32_t> slots;
  for_each_live(table, [&](std::size_t, const PortEntry& entry) {
    if (entry.state == PortState::listening) slots.push_back(entry.slot);
  });
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

}  // namespace verbena::registry
