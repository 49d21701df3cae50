// The links of ShmWire: which processes have one, and how it is made.

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "packet/packet.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "system/random.h"
#include "wire/gsi_route.h"
#include "wire/shm/offer.h"
#include "wire/shm/shm_wire.h"

namespace verbena::wire {

using shm::Link;
using shm::Message;
using shm::Segment;

namespace {

constexpr auto kShm = static_cast<std::uint8_t>(WireId::shm);
/// A trait of processes (registry::SharedTable).
constexpr std::uint64_t kTakesRings = 1;

/// What 63 others take, at first; beyond it, no ring grows.
constexpr std::size_t kGrowsUpTo = 64 * Link::kRingBytes;
constexpr std::size_t kMostRings = 4 * kGrowsUpTo;
constexpr Duration kMakeAgain = std::chrono::milliseconds{100};
/// Who hasn't answered by then gets frames another way. Who has refused is asked again.
constexpr Duration kAskAgain = std::chrono::seconds{1};

}  // namespace

void ShmWire::announce(bool takes_rings) {
  registry_.table().set_traits(registry_.slot(), takes_rings ? kTakesRings : 0);
}

void ShmWire::open_address(const LocalAddress& local) {
  const auto known = [&](const LocalAddress& a) { return a.address == local.address; };
  if (std::ranges::any_of(addresses_, known)) return;
  addresses_.push_back(local);
  registry::SharedTable& table = registry_.table();
  if (const auto column = table.column_of(local)) table.receive_at(*column, registry_.slot());
}

bool ShmWire::receives_at(std::uint32_t slot, const packet::Flow& flow) const {
  if (flow.source == flow.destination) return true;
  const registry::SharedTable& table = registry_.table();
  const auto column = table.find_column({flow.destination, interface_of(flow.source)});
  return column && table.receives_at(*column, slot);
}

Carriage ShmWire::would_carry(const packet::Flow& flow, Qpn to) const {
  const std::uint32_t slot = to.slot();
  if (slot == 0 || flow.destination.is_multicast() || !receives_at(slot, flow)) {
    return Carriage::other_host;
  }
  if (const Link* link = links_[slot].get()) {
    if (link->closed()) return Carriage::peer_declines;
    const auto asked = asked_.find(slot);
    const bool refused = !link->complete() && asked != asked_.end() && asked->second.refused;
    return refused ? Carriage::peer_declines : Carriage::carried;
  }
  if (!registry_.held(slot)) return Carriage::other_host;
  const bool takes = (registry_.table().traits(slot) & kTakesRings) != 0;
  return takes ? Carriage::carried : Carriage::peer_declines;
}

Carriage ShmWire::carriage(const packet::Flow& flow, Qpn to) {
  const Carriage could = would_carry(flow, to);
  if (could == Carriage::other_host) return could;
  if (const Link* link = links_[to.slot()].get()) {
    return link->closed() || link->complete() ? could : unanswered(to.slot());
  }
  return could == Carriage::carried ? ask(to.slot()) : could;
}

Carriage ShmWire::ask(std::uint32_t slot) {
  const auto before = asked_.find(slot);
  const bool refused = before != asked_.end();
  const Instant now = monotonic_now();
  if (refused && now < before->second.again_at) return Carriage::peer_declines;
  if (now < make_again_at_) return Carriage::no_memory;
  if (make_link(slot) == nullptr) {
    make_again_at_ = now + kMakeAgain;
    return Carriage::no_memory;
  }
  if (!links_[slot]->complete()) asked_[slot] = {now + kAskAgain, refused};
  return refused ? Carriage::peer_declines : Carriage::carried;
}

Carriage ShmWire::unanswered(std::uint32_t slot) {
  const Asked& asked = asked_[slot];
  // What is sent to one who refuses is lost: then he gets nothing until he has accepted.
  if (asked.refused) return Carriage::peer_declines;
  if (monotonic_now() < asked.again_at) return Carriage::carried;
  give_up(slot);
  return Carriage::peer_declines;
}

/// Frames to QP 1 of an address reach one of the processes that receive there. 0: nobody does.
std::uint32_t ShmWire::anybody_at(const packet::Flow& flow) const {
  if (interface_of(flow.destination) != 0) return registry_.slot();
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    if (registry_.held(slot) && receives_at(slot, flow)) return slot;
  }
  return 0;
}

std::vector<Qpn> ShmWire::takers(const packet::Flow& flow, std::span<const std::uint8_t> frame) {
  const std::uint32_t somebody = anybody_at(flow);
  if (somebody == 0) return {};
  packet::Datagram arriving;
  arriving.destination = flow.destination;
  arriving.bytes = frame;
  const GsiRoute route = gsi_route(arriving, registry_.table(), somebody);
  std::vector<std::uint32_t> slots = route.copies;
  slots.push_back(route.owner);
  std::vector<Qpn> all;
  for (const std::uint32_t slot : slots) {
    const Qpn to{slot << Qpn::kIndexBits};
    if (carriage(flow, to) != Carriage::carried) return {};
    all.push_back(to);
  }
  return all;
}

Link* ShmWire::link_to(std::uint32_t slot) {
  Link* const link = links_[slot].get();
  return link != nullptr && !link->closed() ? link : nullptr;
}

Link* ShmWire::make_link(std::uint32_t slot) {
  if (ring_bytes_ + Link::kRingBytes > kMostRings) return nullptr;
  auto made = Segment::create(Link::kRingBytes);
  if (!made) {
    last_error_ = made.error().message;
    ++counters_.send_errors;
    return nullptr;
  }
  const auto id = random_number<std::uint64_t>();
  auto link = std::make_unique<Link>(slot, id, std::move(made->segment));
  if (slot == registry_.slot()) {  // to itself
    auto other = Segment::map(made->descriptor);
    Fd bell{kernel::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 0)};
    if (!other || !bell) return nullptr;
    link->complete(id, std::move(other).value(), std::move(bell));
  } else if (!send_offer(slot, id, made->descriptor)) {
    return nullptr;
  }
  return add_link(std::move(link));
}

Link* ShmWire::make_last_link(std::uint32_t slot) {
  auto made = Segment::create(Link::kRingBytes);
  if (!made) return nullptr;
  auto link =
      std::make_unique<Link>(slot, random_number<std::uint64_t>(), std::move(made->segment));
  link->close();
  return add_link(std::move(link));
}

Link* ShmWire::add_link(std::unique_ptr<Link> link) {
  live_.reserve(live_.size() + 1);
  touched_.reserve(live_.size() + 1);
  if (asleep_) link->say_asleep();
  ring_bytes_ += link->capacity();
  live_.push_back(link.get());
  return (links_[link->slot()] = std::move(link)).get();
}

bool ShmWire::send_offer(std::uint32_t slot, std::uint64_t id, const Fd& segment) {
  const Message offer{.kind = Message::Kind::offer, .slot = registry_.slot(), .link = id};
  std::array<int, Message::kDescriptors> descriptors{};
  descriptors[Message::kSegment] = segment.get();
  descriptors[Message::kBell] = bell_.get();
  return registry_.pass(slot, kShm, offer.bytes(), {}, descriptors);
}

void ShmWire::refuse(std::uint32_t slot, std::uint64_t id) {
  const Message refusal{.kind = Message::Kind::refusal, .slot = registry_.slot(), .link = id};
  registry_.pass(slot, kShm, refusal.bytes(), {});
}

void ShmWire::message(const registry::PeerMessage& message, DatagramSink& sink) {
  const auto said = Message::of(message.bytes);
  const bool sensible = said && said->slot != 0 && said->slot < Qpn::kSlots &&
                        said->slot != registry_.slot() && said->slot == message.from;
  if (!sensible) return;
  switch (said->kind) {
    case Message::Kind::offer:
      return accept(said->slot, said->link, message.descriptors, sink);
    case Message::Kind::refusal:
      return note_refusal(said->slot, said->link);
  }
}

void ShmWire::note_refusal(std::uint32_t slot, std::uint64_t id) {
  const Link* const link = links_[slot].get();
  if (link != nullptr && !link->complete() && link->id() == id) give_up(slot);
}

void ShmWire::give_up(std::uint32_t slot) {
  drop_link(slot);
  asked_[slot] = {monotonic_now() + kAskAgain, true};
}

void ShmWire::accept(std::uint32_t slot, std::uint64_t id, std::span<Fd> descriptors,
                     DatagramSink& sink) {
  Link* link = links_[slot].get();
  if (link != nullptr &&
      (link->complete() || link->closed())) {  // another process has the slot now
    link->finish();
    if (link->ready()) receive_from(*link, SIZE_MAX, sink);
    drop_link(slot);
    link = nullptr;
  }
  const bool whole = descriptors.size() >= Message::kDescriptors &&
                     descriptors[Message::kSegment] && descriptors[Message::kBell];
  auto other = whole ? Segment::map(descriptors[Message::kSegment])
                     : Error{EMFILE, "no descriptor is free for the ring of another process"};
  if (other && link == nullptr) link = make_link(slot);
  if (!other || link == nullptr) {
    if (!other) last_error_ = other.error().message;
    refuse(slot, id);
    if (!other) return;
    // It may be dead already. What it has published is taken all the same.
    link = make_last_link(slot);
    if (link == nullptr) return;
  }
  link->complete(id, std::move(other).value(), std::move(descriptors[Message::kBell]));
  if (link->closed()) link->finish();
  asked_.erase(slot);
  touch(*link);
}

void ShmWire::member_died(std::uint32_t slot) {
  asked_.erase(slot);
  Link* const link = links_[slot].get();
  if (link == nullptr) return;
  link->close();
  link->finish();  // receive() takes what it published, and drops the link
}

void ShmWire::drop_link(std::uint32_t slot) {
  Link* const link = links_[slot].get();
  if (reserved_link_ == link) reserved_link_ = nullptr;
  ring_bytes_ -= link->capacity();
  std::erase(live_, link);
  std::erase(touched_, link);
  links_[slot].reset();
}

void ShmWire::enlarge(Link& link) {
  const std::size_t larger = 2 * link.capacity();
  if (larger > Link::kMostRingBytes || ring_bytes_ + larger / 2 > kGrowsUpTo) return;
  if (link.grow(larger)) ring_bytes_ += larger / 2;
}

}  // namespace verbena::wire
