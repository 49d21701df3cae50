#include "wire/shm/shm_wire.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "packet/bth.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "system/system_error.h"

namespace verbena::wire {

using shm::Link;

namespace {

constexpr std::size_t kLeastFrame = packet::Bth::kSize + packet::kIcrcSize;
/// The sender may change a frame as long as it is read. Copying a small one costs less than
/// watching out.
constexpr std::size_t kCopied = 512;
constexpr std::size_t kMostFrame = 1u << 16;
/// Frames of one process before the next one has its turn.
constexpr std::size_t kTurn = 64;
/// Likewise, where a device copies them.
constexpr std::size_t kLongTurn = 256;

}  // namespace

Result<std::unique_ptr<ShmWire>> ShmWire::create(registry::Registry& registry) {
  Fd bell{::eventfd(0, EFD_CLOEXEC)};  // a thread may wait in a read, which a signal may restart
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
  announce(true);
}

ShmWire::~ShmWire() {
  if (!bell_) return;  // abandoned
  registry_.unwatch(*this);
  announce(false);
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
  if (std::exchange(hurries_, false)) reserved_link_->publish();
  touch(*reserved_link_);
  ++counters_.frames_sent;
  PortTraffic& port = traffic_of(reserved_flow_.source, sent_from_);
  ++port.sent_packets;
  port.sent_bytes += reserved_bytes_ + sent_from_.headers;
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
  if (!std::exchange(link.touched, true)) touched_.push_back(&link);
}

void ShmWire::flush() {
  if (touched_.empty()) return;
  shm::flush(touched_);
  for (Link* link : touched_) link->touched = false;
  touched_.clear();
}

// ---- receiving

std::size_t ShmWire::receive(DatagramSink& sink) {
  std::size_t frames = 0;
  for (std::size_t i = 0; i < live_.size();) {
    Link& link = *live_[i];
    if (link.ready()) frames += receive_from(link, kTurn, sink);
    if (link.broken() || (link.closed() && !link.finished())) {
      give_up(link.slot(), Carriage::peer_declines, sink);
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
  const auto end_turn = [&] {
    sink.no_more();  // reads the ring
    if (link.release()) touch(link);
  };
  try {
    for (bool more = true; more;) {
      auto datagram = link.next();
      if (!datagram) break;
      ++frames;
      more = frames < most || (frames < kLongTurn && sink.is_copying());
      deliver(*datagram, link, more, sink);
    }
  } catch (...) {  // there is no memory for what the last one asks for
    end_turn();
    throw;
  }
  end_turn();
  if (link.broken()) {
    ++counters_.malformed;
    last_error_ = "the process of slot " + std::to_string(link.slot()) +
                  " sent what can't be: its frames are no longer taken";
    ++counters_.send_errors;
  }
  return frames;
}

void ShmWire::deliver(packet::Datagram& d, const Link& link, bool may_go_on, DatagramSink& sink) {
  if (!is_open(d.destination) || d.bytes.size() < kLeastFrame) {
    ++counters_.malformed;
    if (observer_ != nullptr) observer_->dropped("malformed", d);
    return;
  }
  d.way = packet::Way::host;
  d.sender = link.slot();
  if (d.bytes.size() <= kCopied) {
    std::memcpy(copy_.data(), d.bytes.data(), d.bytes.size());
    d.bytes = std::span{copy_}.first(d.bytes.size());
  } else {
    d.more = may_go_on && link.ready();
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
  PortTraffic& port = traffic_of(d.destination, received_at_);
  ++port.received_packets;
  port.received_bytes += d.bytes.size() + received_at_.headers;
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

PortTraffic& ShmWire::traffic_of(const IpAddress& address, Port& last) {
  if (last.headers == 0 || last.address != address) {
    const PortTraffic& port = counters_.port(interface_of(address));
    last = {address, static_cast<std::size_t>(&port - counters_.ports.data()),
            ip_and_udp_size(address.is_v4())};
  }
  return counters_.ports[last.place];
}

void ShmWire::abandon() {
  bell_.reset();
  for (Link* link : live_) link->abandon();
  live_.clear();
  touched_.clear();
}

}  // namespace verbena::wire
