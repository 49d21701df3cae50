#include "engine/placement.h"

#include <array>

namespace verbena::engine {

namespace {

SharedReceiveQueue* shared_queue(QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq : qp.srq;
}

/// XRC receives complete where their queue says.
CompletionQueue* receive_cq(QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq->xrc_cq : qp.receive_cq;
}

PdId receive_pd(QueuePair& qp) {
  const SharedReceiveQueue* srq = shared_queue(qp);
  return srq != nullptr ? srq->pd : qp.pd;
}

}  // namespace

bool take_receive(Services& services, QueuePair& qp) {
  TakenReceive& receive = qp.responder.receive;
  if (receive.taken) return true;  // left over from a message that was given up
  SharedReceiveQueue* srq = shared_queue(qp);
  ReceiveQueue& queue = srq != nullptr ? srq->queue : qp.rq;
  if (queue.empty()) return false;
  queue.take(receive);
  if (srq != nullptr && queue.size() < srq->limit) {
    srq->limit = 0;  // one event per setting (IBA 10.2.9.3)
    services.tell({.kind = EventKind::srq_limit_reached, .srq = srq});
  }
  return true;
}

Placed place_send(Services& services, QueuePair& qp, std::span<const std::uint8_t> bytes,
                  std::uint32_t offset) {
  const TakenReceive& receive = qp.responder.receive;
  const auto size = static_cast<std::uint32_t>(bytes.size());
  if (offset > receive.length || size > receive.length - offset) return Placed::too_long;
  if (size == 0) return Placed::yes;
  const bool placed = resolve(services.keys, receive_pd(qp), receive.sges, offset, size,
                              Access::kLocalWrite, services.segments) &&
                      services.copies.scatter(bytes, services.segments);
  return placed ? Placed::yes : Placed::fault;
}

PdId remote_pd(const QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq->pd : qp.pd;
}

const MemoryRegion* remote_region(const Services& services, const QueuePair& qp, PdId pd, Key rkey,
                                  std::uint64_t address, std::uint64_t bytes, unsigned access) {
  const MemoryRegion* region = services.keys.find(rkey);
  const bool granted = region != nullptr && region->bound && region->pd == pd &&
                       (region->type != MemoryRegion::Type::window_2 || region->owner == qp.qpn) &&
                       (region->access & access) == access && region->contains(address, bytes);
  return granted ? region : nullptr;
}

bool place_write(Services& services, QueuePair& qp, std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return true;
  const Responder& r = qp.responder;
  const MemoryRegion* region = services.keys.find(r.target.rkey);
  const std::array where{Segment{region->translate(r.target.address + r.received), bytes.size()}};
  return services.copies.scatter(bytes, where);
}

void complete_receive(Services& services, QueuePair& qp, const packet::Packet& p) {
  TakenReceive& receive = qp.responder.receive;
  receive.taken = false;
  const Completion done{.wr_id = receive.wr_id,
                        .kind = p.info().kind == packet::Kind::send
                                    ? CompletionKind::receive
                                    : CompletionKind::receive_write_immediate,
                        .has_immediate = p.info().immediate,
                        .has_invalidated = p.info().ieth,
                        .has_grh = p.info().deth,
                        .over_ipv4 = receive.over_ipv4,
                        .solicited = p.bth.solicited,
                        .immediate = p.immediate,
                        .byte_count = qp.responder.received,
                        .invalidated = p.ieth.rkey,
                        .qpn = qp.qpn,
                        .source_qpn = p.deth.source};
  ++qp.counters.rdma_recvs;
  complete(services, qp, *receive_cq(qp), done);
}

void fail_receive(Services& services, QueuePair& qp, CompletionStatus status) {
  TakenReceive& receive = qp.responder.receive;
  if (!receive.taken) return;
  receive.taken = false;
  complete(
      services, qp, *receive_cq(qp),
      {.wr_id = receive.wr_id, .status = status, .kind = CompletionKind::receive, .qpn = qp.qpn});
}

}  // namespace verbena::engine
