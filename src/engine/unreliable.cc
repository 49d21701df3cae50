#include "engine/unreliable.h"

#include <algorithm>
#include <new>

#include "engine/placement.h"
#include "packet/grh.h"

namespace verbena::engine {

namespace {

using packet::Kind;
using packet::Packet;

/// The receive that was being filled is no good, and that is the program's own doing.
void fail_locally(Services& services, QueuePair& qp, CompletionStatus status) {
  fail_receive(services, qp, status);
  enter_error(services, qp);
}

/// C9-160 ff.: full FIRST and MIDDLE, a LAST that isn't empty, a WRITE as long as it said.
bool length_fits(const QueuePair& qp, const Packet& p) {
  const Responder& r = qp.responder;
  const auto size = static_cast<std::uint32_t>(p.payload.size());
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const auto& info = p.info();
  if (size > mtu || (!info.last && size != mtu) || (info.last && !info.first && size == 0)) {
    return false;
  }
  if (info.kind != Kind::write) return true;
  if (r.target.length > kMaxMessage) return false;
  const std::uint32_t left = r.target.length - r.received;
  return info.last ? size == left : size < left;
}

/// False: the message is given up.
bool accept(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  if (info.first) {
    r.received = 0;
    r.target = p.reth;
  }
  if (!length_fits(qp, p)) return false;
  const bool takes =
      (info.kind == Kind::send && info.first) || (info.kind == Kind::write && info.immediate);
  if (takes && !take_receive(services, qp)) {
    ++qp.counters.drop_no_receive;
    return false;
  }
  if (info.kind == Kind::write) {
    if ((qp.attributes.access & Access::kRemoteWrite) == 0) return false;
    if (r.target.length > 0 && remote_region(services, qp, qp.pd, r.target.rkey, r.target.address,
                                             r.target.length, Access::kRemoteWrite) == nullptr) {
      return false;
    }
    if (!place_write(services, qp, p.payload)) return false;
  } else {
    switch (place_send(services, qp, p.payload, r.received)) {
      case Placed::yes:
        break;
      case Placed::too_long:
        return false;
      case Placed::fault:
        fail_locally(services, qp, CompletionStatus::local_protection_error);
        return false;
    }
  }
  r.received += static_cast<std::uint32_t>(p.payload.size());
  return true;
}

}  // namespace

void handle_unreliable(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  // C9-152: a gap ends the message; the next one begins where it likes.
  const bool continues = !info.first && p.bth.psn == r.expected && r.message == info.kind;
  if (!info.first && !continues) {
    ++qp.counters.out_of_seq_request;
    r.message = Kind::none;
    r.expected = p.bth.psn.next();
    return;
  }
  r.expected = p.bth.psn.next();
  if (!accept(services, qp, p)) {
    r.message = Kind::none;
    return;
  }
  r.message = info.last ? Kind::none : info.kind;
  if (info.last && (info.kind == Kind::send || info.immediate)) {
    complete_receive(services, qp, p);
  }
}

void handle_datagram(Services& services, QueuePair& qp, const packet::Datagram& datagram,
                     const Packet& p) {
  Counters& counters = qp.counters;
  if (p.deth.qkey != qp.attributes.qkey) {
    ++counters.drop_qkey;
    return;
  }
  const std::size_t size = packet::kGrhSize + p.payload.size();
  if (!take_receive(services, qp)) {
    ++counters.drop_no_receive;
    return;
  }
  if (size > qp.responder.receive.length) {
    ++counters.drop_too_long;  // C9-186: without a word; the receive serves the next
    return;
  }
  const packet::Grh grh = packet::grh_of(datagram);
  Placed placed = place_send(services, qp, grh, 0);
  if (placed == Placed::yes) placed = place_send(services, qp, p.payload, packet::kGrhSize);
  if (placed != Placed::yes) {
    fail_locally(services, qp, CompletionStatus::local_protection_error);
    return;
  }
  qp.responder.received = static_cast<std::uint32_t>(size);
  qp.responder.receive.over_ipv4 = datagram.source.is_v4();
  complete_receive(services, qp, p);
}

void handle_mark(QueuePair& qp, const packet::Datagram& datagram, const Packet& p) try {
  constexpr std::size_t kMost = 256;  // senders have one each
  auto& marks = qp.responder.marks;
  ++qp.counters.rcvd_marks;
  if (marks.size() >= kMost) return;
  if (qp.type == QpType::uc) {
    marks.push_back({qp.attributes.flow, qp.attributes.dest_qpn, p.bth.psn});
  } else if (p.deth.qkey != qp.attributes.qkey) {
    ++qp.counters.drop_qkey;
  } else if (!datagram.destination.is_multicast()) {
    marks.push_back({{.source = datagram.destination, .destination = datagram.source},
                     p.deth.source,
                     p.bth.psn});
  }
} catch (const std::bad_alloc&) {
  ++qp.counters.drop_no_memory;  // a lost mark: the sender asks again
}

bool transmit_reached_marks(Services& services, QueuePair& qp, packet::FrameSink& sink) {
  auto& marks = qp.responder.marks;
  for (; !marks.empty(); marks.pop_front()) {
    Packet p;
    p.bth.opcode = packet::Opcode::mark_reached;
    p.bth.destination = marks.front().qpn;
    p.bth.psn = marks.front().psn;
    p.deth = {services.receive_buffer, qp.qpn};
    const auto out = sink.reserve(marks.front().flow, packet::frame_size(p.bth.opcode, 0));
    if (out.empty()) return false;
    packet::encode_headers(p, out);
    sink.commit();
    ++qp.counters.sent_pkts;
  }
  return true;
}

}  // namespace verbena::engine
