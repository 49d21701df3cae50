#include "engine/unreliable.h"

#include "engine/message_rules.h"
#include "engine/payload_placement.h"
#include "engine/receive_side.h"
#include "engine/responder_checks.h"
#include "packet/grh.h"

namespace verbena::engine {

namespace {

using packet::Kind;
using packet::Packet;

/// False: the message is given up.
bool accept(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const auto& info = p.info();
  if (!length_fits(qp, p)) return false;
  note_message(r, p);
  if (takes_receive(p) && !take_receive(services, qp)) {
    drop(services, qp, &Counters::drop_no_receive, p);
    return false;
  }
  if (info.kind == Kind::write) {
    if (check_permitted(qp, p) || check_memory(services, qp, p)) return false;
    if (!place_write(services, qp, p.payload)) return false;
  } else {
    switch (place_send(services, qp, p.payload, r.received)) {
      case Placed::yes:
        break;
      case Placed::too_long:
        return false;
      case Placed::fault:
        fail_receive_and_queue_pair(services, qp);
        return false;
    }
  }
  note_placed(r, p);
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
  if (completes_receive(p)) complete_receive(services, qp, p);
}

void handle_datagram(Services& services, QueuePair& qp, const packet::Datagram& datagram,
                     const Packet& p) {
  if (p.deth.qkey != qp.attributes.qkey) {
    drop(services, qp, &Counters::drop_qkey, p);
    return;
  }
  const packet::Grh grh = packet::grh_of(datagram);
  if (!place_message(services, qp, {grh, p.payload}, {.packet = &p})) return;
  qp.responder.receive.over_ipv4 = datagram.source.is_v4();
  complete_receive(services, qp, p);
}

}  // namespace verbena::engine
