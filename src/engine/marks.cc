#include "engine/marks.h"

#include <new>

namespace verbena::engine {

using packet::Packet;

void handle_mark(Services& services, QueuePair& qp, const packet::Datagram& datagram,
                 const Packet& p) try {
  constexpr std::size_t kMost = 256;  // senders have one each
  auto& marks = qp.responder.marks;
  ++qp.counters.rcvd_marks;
  if (marks.size() >= kMost) return;
  if (qp.type == QpType::uc) {
    marks.push_back({qp.attributes.flow, qp.attributes.dest_qpn, p.bth.psn});
  } else if (p.deth.qkey != qp.attributes.qkey) {
    drop(services, qp, &Counters::drop_qkey, p);
  } else if (!datagram.destination.is_multicast()) {
    marks.push_back({{.source = datagram.destination, .destination = datagram.source},
                     p.deth.source,
                     p.bth.psn});
  }
} catch (const std::bad_alloc&) {
  drop(services, qp, &Counters::drop_no_memory, p);  // a lost mark: the sender asks again
}

bool transmit_reached_marks(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  auto& marks = qp.responder.marks;
  for (; !marks.empty(); marks.pop_front()) {
    Packet p;
    p.bth.opcode = packet::Opcode::mark_reached;
    p.bth.destination = marks.front().qpn;
    p.bth.psn = marks.front().psn;
    p.deth = {services.receive_buffer, qp.qpn};
    const auto out =
        sink.reserve(marks.front().flow, p.bth.destination, packet::frame_size(p.bth.opcode, 0));
    if (out.empty()) return false;
    packet::encode_headers(p, out);
    sink.commit();
    note_frame(services, qp, marks.front().flow, p, 0);
  }
  return true;
}

}  // namespace verbena::engine
