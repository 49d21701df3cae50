// The links of ShmWire: which processes have one, and how it is made.

#include <fcntl.h>
#include <sys/stat.h>

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
/// A process that could not be asked is asked again after the first; one that refused after the
/// second, and each time after twice as long, up to the third.
constexpr Duration kAskSoon = std::chrono::milliseconds{100};
constexpr Duration kAskLater = std::chrono::seconds{1};
constexpr Duration kAskRarely = std::chrono::minutes{1};

}  // namespace

void ShmWire::announce(bool takes_rings) {
  registry_.table().set_traits(registry_.slot(), takes_rings ? kTakesRings : 0);
}

void ShmWire::open_address(const LocalAddress& local) {
  if (is_open(local.address)) return;
  registry::SharedTable& table = registry_.table();
  const auto column = table.column_of(local);
  if (!column) return;  // nobody could tell that it is ours
  addresses_.push_back(local);
  sent_from_ = received_at_ = {};
  table.receive_at(*column, registry_.slot());
}

bool ShmWire::is_open(const IpAddress& address) const {
  return std::ranges::any_of(addresses_,
                             [&](const LocalAddress& a) { return a.address == address; });
}

bool ShmWire::receives_at(std::uint32_t slot, const packet::Flow& flow) const {
  if (flow.source == flow.destination) return true;
  const registry::SharedTable& table = registry_.table();
  const auto column = table.find_column({flow.destination, interface_of(flow.source)});
  return column && table.receives_at(*column, slot);
}

bool ShmWire::joins(std::uint32_t slot, const packet::Flow& flow) const {
  Link* const link = links_[slot].get();
  if (link != nullptr && link->joins(flow.source, flow.destination)) return true;
  if (!is_open(flow.source) || !receives_at(slot, flow)) return false;
  if (link != nullptr) link->note_joins(flow.source, flow.destination);
  return true;
}

bool ShmWire::takes_rings(std::uint32_t slot) const {
  return (registry_.table().traits(slot) & kTakesRings) != 0;
}

Carriage ShmWire::would_carry(const packet::Flow& flow, Qpn to) const {
  const std::uint32_t slot = to.slot();
  if (slot == 0 || flow.destination.is_multicast() || !joins(slot, flow)) {
    return Carriage::other_host;
  }
  if (const Link* link = links_[slot].get()) {
    if (link->closed()) return Carriage::peer_declines;
    return link->complete() ? Carriage::carried : offered(slot);
  }
  if (!registry_.held(slot)) return Carriage::other_host;
  return takes_rings(slot) ? Carriage::carried : Carriage::peer_declines;
}

Carriage ShmWire::carriage(const packet::Flow& flow, Qpn to) {
  const Carriage could = would_carry(flow, to);
  const bool to_ask = could == Carriage::carried && links_[to.slot()] == nullptr;
  return to_ask ? ask(to.slot()) : could;
}

Carriage ShmWire::ask(std::uint32_t slot) {
  const auto pause = pauses_.find(slot);
  const Instant now = monotonic_now();
  if (pause != pauses_.end() && now < pause->second.until) return pause->second.why;
  if (make_link(slot) != nullptr) return offered(slot);
  Pause& again = pauses_[slot];
  again.until = now + kAskSoon;
  if (again.length == Duration{}) again.why = Carriage::no_memory;
  return again.why;
}

/// What is sent into a ring that is refused is lost. So whoever gave up a link gets nothing by the
/// next one until it has accepted.
Carriage ShmWire::offered(std::uint32_t slot) const {
  const auto pause = pauses_.find(slot);
  const bool gave_up = pause != pauses_.end() && pause->second.length != Duration{};
  return gave_up ? pause->second.why : Carriage::carried;
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

std::optional<Segment::Made> ShmWire::new_segment() {
  if (ring_bytes_ + Link::kRingBytes > kMostRings) return std::nullopt;
  auto made = Segment::create(Link::kRingBytes);
  if (made) return std::move(made).value();
  last_error_ = made.error().message;
  ++counters_.send_errors;
  return std::nullopt;
}

Link* ShmWire::make_link(std::uint32_t slot) {
  auto made = new_segment();
  if (!made) return nullptr;
  return slot == registry_.slot() ? make_own_link(std::move(*made))
                                  : offer_link({.slot = slot}, std::move(*made));
}

Link* ShmWire::make_own_link(Segment::Made made) {
  auto other = Segment::map(made.descriptor);
  Fd bell{kernel::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 0)};
  if (!other || !bell) return nullptr;
  const auto id = random_number<std::uint64_t>();
  auto link = std::make_unique<Link>(registry_.slot(), id, std::move(made.segment));
  link->complete(id, std::move(other).value(), std::move(bell));
  return add_link(std::move(link));
}

Link* ShmWire::offer_link(Offer offer, Segment::Made&& made) {
  offer.link = random_number<std::uint64_t>();
  if (!send_offer(offer, made.descriptor)) return nullptr;
  return add_link(std::make_unique<Link>(offer.slot, offer.link, std::move(made.segment)));
}

Link* ShmWire::make_last_link(std::uint32_t slot, Segment::Made&& made) {
  const auto id = random_number<std::uint64_t>();
  auto link = std::make_unique<Link>(slot, id, std::move(made.segment));
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

bool ShmWire::send_offer(const Offer& offer, const Fd& segment) {
  const Message message{.kind = Message::Kind::offer,
                        .slot = registry_.slot(),
                        .link = offer.link,
                        .answers = offer.answers};
  std::array<int, Message::kDescriptors> descriptors{};
  descriptors[Message::kSegment] = segment.get();
  descriptors[Message::kBell] = bell_.get();
  return registry_.pass(offer.slot, kShm, message.bytes(), {}, descriptors);
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
      return take_offer({said->slot, said->link, said->answers}, message.descriptors, sink);
    case Message::Kind::refusal:
      return take_refusal(said->slot, said->link, sink);
  }
}

void ShmWire::take_refusal(std::uint32_t slot, std::uint64_t id, DatagramSink& sink) {
  const Link* const link = links_[slot].get();
  if (link != nullptr && link->id() == id && !link->finished()) {
    give_up(slot, Carriage::peer_declines, sink);
  }
}

void ShmWire::give_up(std::uint32_t slot, Carriage why, DatagramSink& sink) {
  const Link& link = *links_[slot];
  if (link.complete()) refuse(slot, link.other_id());
  drop_link(slot);
  Pause& pause = pauses_[slot];
  pause.why = why;
  pause.length = std::clamp(2 * pause.length, kAskLater, kAskRarely);
  pause.until = monotonic_now() + pause.length;
  sink.rings_lost(slot);
}

Link* ShmWire::link_for(const Offer& offer, DatagramSink& sink) {
  Link* const link = links_[offer.slot].get();
  if (offer.answers != 0) {
    const bool awaited = link != nullptr && link->id() == offer.answers && !link->complete();
    if (!awaited) refuse(offer.slot, offer.link);
    return awaited ? link : nullptr;
  }
  if (link != nullptr && (link->complete() || link->closed())) {
    // The other process has dropped its end, or another one has the slot now.
    link->finish();
    if (link->ready()) receive_from(*link, SIZE_MAX, sink);
    drop_link(offer.slot);
    sink.rings_lost(offer.slot);
  }
  if (links_[offer.slot] != nullptr) return links_[offer.slot].get();
  auto made = new_segment();
  if (!made) {
    refuse(offer.slot, offer.link);
    return nullptr;
  }
  const Offer answer{.slot = offer.slot, .answers = offer.link};
  if (Link* const ours = offer_link(answer, std::move(*made))) return ours;
  // It is dead already. What it has published is taken all the same.
  return make_last_link(offer.slot, std::move(*made));
}

void ShmWire::take_offer(const Offer& offer, std::span<Fd> descriptors, DatagramSink& sink) {
  const bool whole = descriptors.size() >= Message::kDescriptors &&
                     descriptors[Message::kSegment] && descriptors[Message::kBell];
  auto other = whole ? Segment::map(descriptors[Message::kSegment])
                     : Error{EMFILE, "no descriptor is free for the ring of another process"};
  if (other && !is_bell(descriptors[Message::kBell])) {
    other = Error{EPROTO, "another process offers a bell that is none"};
  }
  if (!other) {
    last_error_ = other.error().message;
    ++counters_.send_errors;
    refuse(offer.slot, offer.link);
    const Link* const link = links_[offer.slot].get();
    if (link != nullptr && !link->complete() && !link->closed()) {
      give_up(offer.slot, Carriage::no_memory, sink);
    }
    return;
  }
  Link* const link = link_for(offer, sink);
  if (link == nullptr) return;
  link->complete(offer.link, std::move(other).value(), std::move(descriptors[Message::kBell]));
  if (link->closed()) link->finish();
  pauses_.erase(offer.slot);
  touch(*link);
}

bool ShmWire::is_bell(const Fd& descriptor) const {
  // All descriptors without a file of their own share an inode. A write to any other of them fails.
  struct stat theirs {};
  struct stat ours {};
  if (::fstat(descriptor.get(), &theirs) != 0 || ::fstat(bell_.get(), &ours) != 0) return false;
  return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

void ShmWire::member_died(std::uint32_t slot) {
  pauses_.erase(slot);
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
