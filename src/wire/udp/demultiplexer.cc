#include "wire/udp/demultiplexer.h"

#include <algorithm>

#include "packet/bth.h"
#include "packet/icrc.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "system/monotonic_now.h"
#include "wire/gsi_route.h"
#include "wire/udp/hand_over.h"
#include "wire/udp/steering.h"

namespace verbena::wire {
namespace {

constexpr std::size_t kMinFrame = packet::Bth::kSize + packet::kIcrcSize;
constexpr Qpn kMulticast{Qpn::kMask};
constexpr auto kId = static_cast<std::uint8_t>(WireId::udp);
constexpr std::string_view kHandoverDrops = "handover_drops";

/// Every process has these; whoever gets the frame keeps it.
bool is_everyones(Qpn qpn) {
  constexpr Qpn kSmi{0};
  return qpn == kSmi || qpn == kMulticast;
}

bool icrc_is_right(const packet::Datagram& d) {
  const auto size = d.bytes.size() - packet::kIcrcSize;
  const packet::IcrcHeaders headers{.source = d.source,
                                    .destination = d.destination,
                                    .source_port = d.source_port,
                                    .destination_port = packet::kRocePort,
                                    .identification = d.identification};
  return packet::recover_identification(headers, d.bytes.first(size),
                                        packet::load_icrc(&d.bytes[size]))
      .has_value();
}

/// Calls f(offset, size) for each frame of a train.
template <typename F>
void for_each_frame(const Train& train, F f) {
  for (std::size_t at = 0; at < train.whole.bytes.size();) {
    const std::size_t size = std::min(train.segment, train.whole.bytes.size() - at);
    f(at, size);
    at += size;
  }
}

}  // namespace

/// Neighbouring frames of one other process leave as one message.
class Demultiplexer::Strays {
 public:
  Strays(Demultiplexer& owner, const Train& train, ReceiveAddress& at)
      : demultiplexer_{owner}, train_{train}, at_{at} {}

  /// `owner` 0: the frame isn't one.
  void note(std::uint32_t owner, std::size_t offset, std::size_t size) {
    if (owner != owner_ || owner == 0) pass_on();
    if (owner == 0) return;
    if (owner_ == 0) first_ = offset;
    owner_ = owner;
    end_ = offset + size;
    ++count_;
  }
  void pass_on() {
    if (owner_ == 0) return;
    demultiplexer_.pass_on(train_.part(first_, end_ - first_), count_, owner_, at_);
    owner_ = 0;
    count_ = 0;
  }

 private:
  Demultiplexer& demultiplexer_;
  const Train& train_;
  ReceiveAddress& at_;
  std::uint32_t owner_ = 0;  // 0: there are none
  std::size_t count_ = 0;
  std::size_t first_ = 0;
  std::size_t end_ = 0;
};

std::size_t Demultiplexer::arrived(const Train& train, ReceiveAddress& at, DatagramSink& sink) {
  if (train.whole.bytes.size() <= train.segment) {  // one frame, as most often
    const std::uint32_t owner = demultiplex(train.whole, at, sink);
    sink.no_more();
    if (owner != 0) pass_on(train, 1, owner, at);
    return 1;
  }
  Strays strays{*this, train, at};
  std::size_t frames = 0;
  for_each_frame(train, [&](std::size_t offset, std::size_t size) {
    strays.note(demultiplex(train.part(offset, size).whole, at, sink), offset, size);
    ++frames;
  });
  sink.no_more();
  strays.pass_on();
  return frames;
}

std::uint32_t Demultiplexer::demultiplex(packet::Datagram d, ReceiveAddress& at,
                                         DatagramSink& sink) {
  if (const auto probe = Probe::decode(d.bytes)) {
    if (!at.group || !at.group->learned(*probe)) ++counters_.foreign_probes;
    return 0;
  }
  const unsigned interface = at.interface();
  if (!check(d, interface)) return 0;
  const Qpn qpn = d.destination_qpn;
  if (!at.group && qpn != kMulticast) {
    // IBA 9.6.1.2: what goes to a group goes to QPN 0xffffff.
    drop(&WireCounters::malformed, d, interface);
    return 0;
  }
  const std::uint32_t own = registry_.slot();
  if (qpn == packet::kGsiQpn) {
    const auto route = gsi_route(d, registry_.table(), own);
    if (route.owner != own) return route.owner;
    for (const auto other : route.copies) hand_over(d, other);
  } else if (qpn.slot() != own && !is_everyones(qpn)) {
    if (qpn.slot() != 0) return qpn.slot();
    ++counters_.handover_drops;  // slot 0 is nobody's
    tell_dropped(kHandoverDrops, d);
    return 0;
  }
  deliver(d, interface, sink);
  return 0;
}

bool Demultiplexer::check(packet::Datagram& d, unsigned interface) {
  if (d.bytes.size() < kMinFrame) {
    drop(&WireCounters::malformed, d, interface);
    return false;
  }
  if (!icrc_is_right(d)) {
    drop(&WireCounters::icrc_errors, d, interface);
    return false;
  }
  d.destination_qpn = packet::destination_qpn_of(d.bytes);
  return true;
}

void Demultiplexer::deliver(const packet::Datagram& d, unsigned interface, DatagramSink& sink) {
  ++counters_.frames_received;
  PortTraffic& port = counters_.port(interface);
  ++port.received_packets;
  port.received_bytes += d.bytes.size() + ip_and_udp_size(d.source.is_v4());
  if (d.destination_qpn == packet::kGsiQpn) {
    sink.management(d);
  } else {
    sink.datagram(d);
  }
}

void Demultiplexer::drop(std::uint64_t WireCounters::*reason, const packet::Datagram& d,
                         unsigned interface) {
  ++(counters_.*reason);
  tell_dropped(reason == &WireCounters::icrc_errors ? "icrc_errors" : "malformed", d);
  ++counters_.port(interface).receive_errors;
}

void Demultiplexer::handed_over(const Train& train, unsigned interface, DatagramSink& sink) {
  for_each_frame(train, [&](std::size_t offset, std::size_t size) {
    packet::Datagram d = train.part(offset, size).whole;
    if (!check(d, interface)) return;
    const std::uint32_t owner = d.destination_qpn == packet::kGsiQpn
                                    ? gsi_route(d, registry_.table(), registry_.slot()).owner
                                    : d.destination_qpn.slot();
    if (owner != registry_.slot()) {
      ++counters_.handover_drops;  // not passed on twice: two stale views must not play ball
      tell_dropped(kHandoverDrops, d);
      return;
    }
    ++counters_.handover_received;
    deliver(d, interface, sink);
  });
  sink.no_more();
}

bool Demultiplexer::hand_over(const packet::Datagram& d, std::uint32_t slot) {
  const auto header = HandOverHeader::of({d, d.bytes.size()});
  const bool passed = registry_.pass(slot, kId, header.bytes(), d.bytes);
  ++(passed ? counters_.handed_over : counters_.handover_drops);
  if (!passed) tell_dropped(kHandoverDrops, d);
  return passed;
}

void Demultiplexer::pass_on(const Train& frames, std::size_t count, std::uint32_t owner,
                            ReceiveAddress& at) {
  const bool passed =
      registry_.pass(owner, kId, HandOverHeader::of(frames).bytes(), frames.whole.bytes);
  (passed ? counters_.handed_over : counters_.handover_drops) += count;
  if (!passed && observer_ != nullptr) {
    for_each_frame(frames, [&](std::size_t offset, std::size_t size) {
      tell_dropped(kHandoverDrops, frames.part(offset, size).whole);
    });
  }
  if (passed && at.group) at.group->misdirected(monotonic_now());
}

}  // namespace verbena::wire
