#include "host/connections/gsi.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <variant>

#include "packet/mad.h"
#include "packet/packet.h"

namespace verbena::host {

std::optional<cm::IncomingMad> mad_of(const packet::Datagram& datagram) {
  const auto parsed = packet::parse(datagram.bytes, datagram.destination_qpn);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  const bool ours = p != nullptr && p->bth.opcode == packet::Opcode::ud_send_only &&
                    p->bth.destination == packet::kGsiQpn && p->deth.qkey == packet::kGsiQkey &&
                    p->payload.size() == packet::kMadSize;
  if (!ours) return std::nullopt;
  return cm::IncomingMad{.route = {.local = datagram.destination,
                                   .remote = datagram.source,
                                   .remote_qp = p->deth.source},
                         .bytes = p->payload};
}

bool Gsi::put(const packet::Flow& flow, Qpn to, std::span<const std::uint8_t> frame, Wires& wires) {
  const auto out = wires.reserve(flow, to, frame.size());
  if (out.empty()) return false;
  std::ranges::copy(frame, out.begin());
  wires.commit();
  return true;
}

std::optional<bool> Gsi::send(const cm::OutgoingMad& mad, Wires& wires) {
  packet::Packet p;
  p.bth.opcode = packet::Opcode::ud_send_only;
  p.bth.destination = mad.route.remote_qp;
  p.bth.psn = next_;
  p.deth = {packet::kGsiQkey, packet::kGsiQpn};
  p.payload = mad.bytes;
  std::array<std::uint8_t, packet::kMaxHeaderSize + packet::kMadSize> room{};
  const auto frame = std::span{room}.first(packet::frame_size(p.bth.opcode, mad.bytes.size()));
  packet::encode_headers(p, frame);
  std::ranges::copy(mad.bytes, frame.end() - static_cast<std::ptrdiff_t>(mad.bytes.size()));

  packet::Flow flow{.source = mad.route.local, .destination = mad.route.remote};
  bool gone = true;
  if (const auto takers = wires.management_takers(flow, frame); !takers.empty()) {
    flow.way = packet::Way::host;
    for (const Qpn to : takers) gone = put(flow, to, frame, wires) && gone;
  } else if (wires.rings_alone(mad.route.local)) {
    return std::nullopt;
  } else {
    const auto port = wires.network().management_port(mad.route.local);
    // A message whose source address isn't open counts as lost: the sender will retry.
    if (!port) return true;
    flow.source_port = *port;
    gone = put(flow, mad.route.remote_qp, frame, wires);
  }
  if (!gone) return false;
  if (trace_ != nullptr) trace_->message_sent(flow, p, mad.again);
  next_ = next_.next();
  return true;
}

}  // namespace verbena::host
