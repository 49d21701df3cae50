#include "engine/receive_side.h"

namespace verbena::engine {

namespace {

/// XRC receives complete where their queue says.
CompletionQueue* receive_cq(QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq->xrc_cq : qp.receive_cq;
}

/// The taken receive is through.
void end_receive(Services& services, QueuePair& qp, Completion& done) {
  TakenReceive& receive = qp.responder.receive;
  receive.taken = false;
  done.wr_id = receive.wr_id;
  done.qpn = qp.qpn;
  complete(services, qp, *receive_cq(qp), done);
}

}  // namespace

bool take_receive(Services& services, QueuePair& qp) {
  TakenReceive& receive = qp.responder.receive;
  if (receive.taken) return true;  // left over from a message that was given up
  ReceiveQueue& queue = receive_queue(qp);
  if (queue.empty()) return false;
  queue.take(receive);
  SharedReceiveQueue* const srq = shared_queue(qp);
  if (srq != nullptr && queue.size() < srq->limit) {
    srq->limit = 0;  // one event per setting (IBA 10.2.9.3)
    services.raise({.kind = EventKind::srq_limit_reached, .srq = srq});
  }
  return true;
}

void complete_receive(Services& services, QueuePair& qp, const packet::Packet& p) {
  Completion done{.kind = p.info().kind == packet::Kind::send
                              ? CompletionKind::receive
                              : CompletionKind::receive_write_immediate,
                  .has_immediate = p.info().immediate,
                  .has_invalidated = p.info().ieth,
                  .has_grh = p.info().deth,
                  .over_ipv4 = qp.responder.receive.over_ipv4,
                  .solicited = p.bth.solicited,
                  .immediate = p.immediate,
                  .byte_count = qp.responder.received,
                  .invalidated = p.ieth.rkey,
                  .source_qpn = p.deth.source};
  ++qp.counters.rdma_recvs;
  end_receive(services, qp, done);
}

void complete_receive(Services& services, QueuePair& qp, Completion done) {
  ++qp.counters.rdma_recvs;
  end_receive(services, qp, done);
}

void fail_receive(Services& services, QueuePair& qp, CompletionStatus status) {
  if (!qp.responder.receive.taken) return;
  Completion done{.status = status, .kind = CompletionKind::receive};
  end_receive(services, qp, done);
}

void fail_receive_and_queue_pair(Services& services, QueuePair& qp) {
  fail_receive(services, qp, CompletionStatus::local_protection_error);
  enter_error(services, qp);
}

void flush_receives(Services& services, QueuePair& qp) {
  fail_receive(services, qp, CompletionStatus::flushed);
  while (!qp.rq.empty()) {
    qp.responder.receive.taken = true;
    qp.responder.receive.wr_id = qp.rq.drop();
    fail_receive(services, qp, CompletionStatus::flushed);
  }
}

}  // namespace verbena::engine
