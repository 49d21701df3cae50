#include "host/connections/gsi.h"

#include <algorithm>
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

bool Gsi::send(const cm::OutgoingMad& mad, std::uint16_t source_port, packet::FrameSink& sink) {
  packet::Packet p;
  p.bth.opcode = packet::Opcode::ud_send_only;
  p.bth.destination = mad.route.remote_qp;
  p.bth.psn = next_;
  p.deth = {packet::kGsiQkey, packet::kGsiQpn};
  const packet::Flow flow{
      .source = mad.route.local, .destination = mad.route.remote, .source_port = source_port};
  const auto out =
      sink.reserve(flow, mad.route.remote_qp, packet::frame_size(p.bth.opcode, mad.bytes.size()));
  if (out.empty()) return false;
  packet::encode_headers(p, out);
  std::copy(mad.bytes.begin(), mad.bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(packet::header_size(p.bth.opcode)));
  sink.commit();
  if (trace_ != nullptr) {
    p.payload = mad.bytes;
    trace_->message_sent(flow, p, mad.again);
  }
  next_ = next_.next();
  return true;
}

}  // namespace verbena::host
