#include "engine/payload_placement.h"

#include <array>

#include "engine/receive_side.h"
#include "engine/scatter_gather.h"

namespace verbena::engine {

namespace {

PdId receive_pd(const QueuePair& qp) {
  const SharedReceiveQueue* srq = shared_queue(qp);
  return srq != nullptr ? srq->pd : qp.pd;
}

}  // namespace

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

bool place_message(Services& services, QueuePair& qp,
                   std::initializer_list<std::span<const std::uint8_t>> pieces,
                   const DroppedFrame& if_dropped) {
  if (!take_receive(services, qp)) {
    drop(services, qp, &Counters::drop_no_receive, if_dropped);
    return false;
  }
  Responder& r = qp.responder;
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  if (size > r.receive.length) {
    // C9-186: without a word; the receive serves the next.
    drop(services, qp, &Counters::drop_too_long, if_dropped);
    return false;
  }
  r.received = 0;
  for (const auto piece : pieces) {
    if (place_send(services, qp, piece, r.received) != Placed::yes) {
      fail_receive_and_queue_pair(services, qp);
      return false;
    }
    r.received += static_cast<std::uint32_t>(piece.size());
  }
  return true;
}

bool place_write(Services& services, QueuePair& qp, std::span<const std::uint8_t> bytes) {
  if (bytes.empty()) return true;
  const Responder& r = qp.responder;
  const MemoryRegion* region = services.keys.find(r.target.rkey);
  const std::array where{region->segment(r.target.address + r.received, bytes.size())};
  return services.copies.scatter(bytes, where);
}

}  // namespace verbena::engine
