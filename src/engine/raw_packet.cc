#include "engine/raw_packet.h"

#include <algorithm>
#include <new>
#include <optional>

#include "engine/payload_placement.h"
#include "engine/receive_side.h"
#include "engine/scatter_gather.h"

namespace verbena::engine {

namespace {

/// Two addresses and a type.
constexpr std::uint32_t kEthernetHeader = 14;

/// The frame at the cursor into `into`. False: memory or key is no good.
bool fill(Services& services, QueuePair& qp, const SendWqe& wqe, std::span<std::uint8_t> into) {
  const std::uint64_t index = qp.requester.wqe;
  if (wqe.request.inlined) {
    const auto bytes = qp.sq.inline_bytes(index).first(into.size());
    std::copy(bytes.begin(), bytes.end(), into.begin());
    return true;
  }
  return resolve(services.keys, qp.pd, qp.sq.sges(index), 0, wqe.length, 0, services.segments) &&
         services.copies.gather(services.segments, into);
}

/// nullopt: no room now.
std::optional<CompletionStatus> send_frame(Services& services, QueuePair& qp, const SendWqe& wqe,
                                           packet::EthernetSink* sink) {
  using Left = packet::EthernetSink::Sent;
  if (wqe.length < kEthernetHeader) return CompletionStatus::local_length_error;
  if (sink == nullptr) return CompletionStatus::success;
  const std::span<std::uint8_t> room = sink->room(wqe.length);
  if (room.empty()) return CompletionStatus::local_length_error;
  if (!fill(services, qp, wqe, room)) return CompletionStatus::local_protection_error;
  switch (sink->send(qp.qpn, room)) {
    case Left::yes:
      ++qp.counters.sent_pkts;
      qp.counters.sent_bytes += wqe.length;
      return CompletionStatus::success;
    case Left::too_long:
      return CompletionStatus::local_length_error;
    case Left::full:
      break;
  }
  return std::nullopt;
}

/// For the receive that a frame may take. False: there is no memory.
bool make_room(QueuePair& qp) try {
  qp.responder.receive.sges.reserve(receive_queue(qp).max_sge());
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace

Sent transmit_frames(Services& services, QueuePair& qp, packet::EthernetSink* sink,
                     unsigned budget) {
  Requester& r = qp.requester;
  for (unsigned sent = 0; r.wqe != qp.sq.tail(); ++sent) {
    // It may have overrun its completion queue.
    if (qp.state.load(std::memory_order_relaxed) != QpState::rts) break;
    if (sent == budget) return Sent::more;
    const auto status = send_frame(services, qp, qp.sq.at(r.wqe), sink);
    if (!status) return Sent::stalled;
    if (*status != CompletionStatus::success) {
      fail_send(services, qp, *status);
      break;
    }
    skip_request(r);
    complete_send(services, qp, CompletionStatus::success);
  }
  return Sent::all;
}

void handle_frame(Services& services, QueuePair& qp, std::span<const std::uint8_t> frame) {
  const DroppedFrame seen{.bytes = frame};
  if (!takes_requests(qp.state.load(std::memory_order_relaxed))) {
    drop(services, qp, &Counters::drop_state, seen);
    return;
  }
  if (!make_room(qp)) {
    drop(services, qp, &Counters::drop_no_memory, seen);
    return;
  }
  ++qp.counters.rcvd_pkts;
  qp.counters.rcvd_bytes += frame.size();
  if (!place_message(services, qp, {frame}, seen)) return;
  complete_receive(
      services, qp,
      {.kind = CompletionKind::receive, .byte_count = static_cast<std::uint32_t>(frame.size())});
}

}  // namespace verbena::engine
