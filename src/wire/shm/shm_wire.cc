#include "wire/shm/shm_wire.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "packet/bth.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "system/kernel_calls.h"
#include "system/monotonic_now.h"
#include "system/random.h"
#include "system/system_error.h"
#include "wire/gsi_route.h"
#include "wire/shm/offer.h"

namespace verbena::wire {

using shm::Link;
using shm::Message;
using shm::Segment;

namespace {

constexpr auto kShm = static_cast<std::uint8_t>(WireId::shm);
/// A trait of processes (registry::SharedTable).
constexpr std::uint64_t kTakesRings = 1;

constexpr std::size_t kLeastFrame = packet::Bth::kSize + packet::kIcrcSize;
/// The sender may change a frame as long as it is read. Copying a small one costs less than
/// watching out.
constexpr std::size_t kCopied = 512;
constexpr std::size_t kMostFrame = 1u << 16;
/// Frames of one process before the next one has its turn.
constexpr std::size_t kTurn = 64;

/// What 63 others take, at first; beyond it, no ring grows.
constexpr std::size_t kGrowsUpTo = 64 * Link::kRingBytes;
constexpr std::size_t kMostRings = 4 * kGrowsUpTo;
constexpr Duration kMakeAgain = std::chrono::milliseconds{100};
/// Who hasn't answered by then gets frames another way. Who has refused is asked again.
constexpr Duration kAskAgain = std::chrono::seconds{1};

}  // namespace

Result<std::unique_ptr<ShmWire>> ShmWire::create(registry::Registry& registry) {
  Fd bell{::eventfd(0, EFD_CLOEXEC)};  // a thread may wait in a read
  if (!bell) {
    return system_error(errno, "eventfd for the wire between processes",
                        "raise the limit of open files (ulimit -n) if it is reached");
  }
  return std::unique_ptr<ShmWire>{new ShmWire{registry, std::move(bell)}};
}

ShmWire::ShmWire(registry::Registry& registry, Fd bell)
    : registry_{registry},
      bell_{std::move(bell)},
      links_(Qpn::kSlots),
      lost_(kMostFrame),
      copy_(kCopied) {
  registry_.watch(*this);
  registry_.table().set_traits(registry_.slot(), kTakesRings);
}

ShmWire::~ShmWire() {
  if (!bell_) return;  // abandoned
  registry_.unwatch(*this);
  registry_.table().set_traits(registry_.slot(), 0);
}

// ---- links

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
  auto link = std::make_unique<Link>(slot, random_number<std::uint64_t>(), std::move(made->segment));
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

// ---- sending

packet::FrameRooms ShmWire::reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                         std::size_t count) {
  reserved_bytes_ = 0;
  reserved_link_ = nullptr;
  if (size < packet::Bth::kSize || size + packet::kIcrcSize > kMostFrame) return {};
  Link* const link = link_to(to.slot());
  if (link == nullptr) return {std::span{lost_}.first(size), size, size, 1};
  const auto rooms = link->reserve(flow, size, count);
  if (rooms.count == 0) {
    touch(*link);
    if (link->was_full()) enlarge(*link);
    return rooms;
  }
  reserved_link_ = link;
  reserved_flow_ = flow;
  reserved_bytes_ = size + packet::kIcrcSize;
  return rooms;
}

void ShmWire::commit() {
  if (reserved_link_ == nullptr) return;
  reserved_link_->commit();
  touch(*reserved_link_);
  ++counters_.frames_sent;
  PortTraffic& port = port_of(reserved_flow_.source);
  ++port.sent_packets;
  port.sent_bytes += reserved_bytes_ + ip_and_udp_size(reserved_flow_.source.is_v4());
}

bool ShmWire::send_sealed(const packet::Flow& flow, Qpn to, std::span<const std::uint8_t> frame) {
  const auto body = frame.first(frame.size() - packet::kIcrcSize);
  const auto room = reserve(flow, to, body.size());
  if (room.empty()) return false;
  std::ranges::copy(body, room.begin());
  commit();
  return true;
}

void ShmWire::touch(Link& link) {
  if (std::ranges::find(touched_, &link) == touched_.end()) touched_.push_back(&link);
}

void ShmWire::flush() {
  if (touched_.empty()) return;
  shm::flush(touched_);
  touched_.clear();
}

// ---- receiving

std::size_t ShmWire::receive(DatagramSink& sink) {
  std::size_t frames = 0;
  for (std::size_t i = 0; i < live_.size();) {
    Link& link = *live_[i];
    if (link.ready()) frames += receive_from(link, kTurn, sink);
    if (link.broken()) {
      give_up(link.slot());
    } else if (link.finished() && !link.ready()) {
      drop_link(link.slot());
    } else {
      ++i;
    }
  }
  return frames;
}

std::size_t ShmWire::receive_from(Link& link, std::size_t most, DatagramSink& sink) {
  std::size_t frames = 0;
  while (frames < most) {
    const auto datagram = link.next();
    if (!datagram) break;
    ++frames;
    deliver(*datagram, frames < most && link.ready(), sink);
  }
  sink.no_more();
  link.release();
  touch(link);
  if (link.broken()) {
    ++counters_.malformed;
    last_error_ = "the process of slot " + std::to_string(link.slot()) +
                  " sent what can't be: its frames are no longer taken";
    ++counters_.send_errors;
  }
  return frames;
}

void ShmWire::deliver(packet::Datagram d, bool more, DatagramSink& sink) {
  const bool known = std::ranges::any_of(
      addresses_, [&](const LocalAddress& a) { return a.address == d.destination; });
  if (!known || d.bytes.size() < kLeastFrame) {
    ++counters_.malformed;
    if (observer_ != nullptr) observer_->dropped("malformed", d);
    return;
  }
  d.way = packet::Way::host;
  if (d.bytes.size() <= kCopied) {
    std::ranges::copy(d.bytes, copy_.begin());
    d.bytes = std::span{copy_}.first(d.bytes.size());
  } else {
    d.more = more;
    d.changeable = true;
  }
  d.destination_qpn = packet::destination_qpn_of(d.bytes);
  const bool management = d.destination_qpn == packet::kGsiQpn;
  if ((!management && d.destination_qpn.slot() != registry_.slot()) ||
      (management && d.changeable)) {
    ++counters_.handover_drops;
    if (observer_ != nullptr) observer_->dropped("handover_drops", d);
    return;
  }
  ++counters_.frames_received;
  PortTraffic& port = port_of(d.destination);
  ++port.received_packets;
  port.received_bytes += d.bytes.size() + ip_and_udp_size(d.source.is_v4());
  management ? sink.management(d) : sink.datagram(d);
}

// ---- waking

bool ShmWire::arrived() const {
  return std::ranges::any_of(live_, [](const Link* link) { return link->ready(); });
}

bool ShmWire::may_sleep() {
  asleep_ = true;
  return shm::may_sleep(live_);
}

void ShmWire::woken() {
  if (!std::exchange(asleep_, false)) return;
  for (Link* link : live_) link->say_awake();
}

// ----

unsigned ShmWire::interface_of(const IpAddress& address) const {
  for (const LocalAddress& a : addresses_) {
    if (a.address == address) return a.interface;
  }
  return 0;
}

PortTraffic& ShmWire::port_of(const IpAddress& address) {
  return counters_.port(interface_of(address));
}

void ShmWire::abandon() {
  bell_.reset();
  for (Link* link : live_) link->abandon();
  live_.clear();
  touched_.clear();
}

}  // namespace verbena::wire
