#pragma once

// A queue pair is plain state in three parts. Each part is changed by its own files alone:
//   Requester   requester
//   Completer   completer
//   Responder   responder*, receive_side, message_rules, payload_placement, unreliable, marks,
//               raw_packet
// The other parts may look at it, and tell it by the functions that its header lists. Timers are
// the queue pair's: see queue_pair_timers.h.
//
//                 post_send                                    a request arrives
//                     |                                                |
//   SendQueue --> Requester --frames-->            --packets--> Responder --> ReceiveQueue
//                     ^  go back                                       |
//                 Completer  <--packets--         <--frames-- acknowledgements, responses
//                     |                                                |
//                 send CQ                                         receive CQ

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "engine/attributes.h"
#include "engine/completer.h"
#include "engine/completion_queue.h"
#include "engine/counters.h"
#include "engine/doorbell.h"
#include "engine/memory_region.h"
#include "engine/receive_queue.h"
#include "engine/requester.h"
#include "engine/responder.h"
#include "engine/send_queue.h"
#include "engine/services.h"
#include "engine/shared_receive_queue.h"
#include "engine/timer_queue.h"

namespace verbena::engine {

struct QpInit {
  PdId pd{};  // not of XRC_RECV: the shared receive queue that a request names has it
  CompletionQueue* send_cq = nullptr;     // not of XRC_RECV
  CompletionQueue* receive_cq = nullptr;  // not of XRC
  // Raw packets do without one where they have no queue that needs it.
  std::uint32_t max_send = 0;
  std::uint32_t max_receive = 0;
  std::uint32_t max_send_sge = 0;
  std::uint32_t max_receive_sge = 0;
  std::uint32_t max_inline = 0;
  bool signal_all = false;
  QpType type = QpType::rc;
  SharedReceiveQueue* srq = nullptr;
  XrcdId xrcd{};  // of XRC_RECV
};

/// Whoever owns the RNIC may derive from it: see Rnic::create_qp().
struct QueuePair {
  QueuePair(Qpn number, const QpInit& init)
      : qpn{number},
        type{init.type},
        pd{init.pd},
        send_cq{init.send_cq},
        receive_cq{init.receive_cq},
        srq{init.srq},
        xrcd{init.xrcd},
        signal_all{init.signal_all},
        sq{init.max_send, init.max_send_sge, init.max_inline},
        rq{init.max_receive, init.max_receive_sge} {}
  virtual ~QueuePair() = default;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  const Qpn qpn;
  const QpType type;
  const PdId pd;
  CompletionQueue* const send_cq;
  CompletionQueue* const receive_cq;
  SharedReceiveQueue* const srq;  // instead of rq
  const XrcdId xrcd;
  const bool signal_all;

  std::atomic<QpState> state{QpState::reset};  // posting threads look at it
  QpAttributes attributes;
  SendQueue sq;
  ReceiveQueue rq;

  Requester requester;
  Completer completer;
  Responder responder;
  bool has_bound = false;  // a type 2 window, ever

  Counters counters;

  // The RNIC's bookkeeping.
  Doorbell doorbell;
  bool runnable = false;  // in the RunQueue
  QueuePair* next_runnable = nullptr;
  bool held = false;  // UC, UD: by a Pace
  QueuePair* next_held = nullptr;
  std::size_t timer_place = TimerQueue::kNowhere;  // in the TimerQueue

  [[nodiscard]] packet::Service service() const {
    switch (type) {
      case QpType::rc:
        return packet::Service::rc;
      case QpType::uc:
        return packet::Service::uc;
      case QpType::ud:
        return packet::Service::ud;
      case QpType::xrc_send:
      case QpType::xrc_receive:
        return packet::Service::xrc;
      case QpType::raw_packet:
        break;  // has none: its frames don't come this way
    }
    return packet::Service::rc;
  }
  /// It has one peer.
  [[nodiscard]] bool connected() const { return type != QpType::ud && type != QpType::raw_packet; }
  /// The peer acknowledges.
  [[nodiscard]] bool reliable() const {
    return type != QpType::uc && type != QpType::ud && type != QpType::raw_packet;
  }
};

/// Every frame that leaves comes by here. `again`: it is a request that has left before.
inline void note_frame(Services& services, QueuePair& qp, const packet::Flow& flow,
                       const packet::Packet& p, std::size_t payload, bool again = false) {
  ++qp.counters.sent_pkts;
  qp.counters.sent_bytes += payload;
  if (again) ++qp.counters.retransmitted_pkts;
  if (services.observer != nullptr) services.observer->sent(qp, flow, p, payload, again);
}

/// A frame for the queue pair is dropped without an answer: counts it. `frame`: what there is of
/// it.
void drop(Services& services, QueuePair& qp, CounterField reason, DroppedFrame frame);

inline void drop(Services& services, QueuePair& qp, CounterField reason, const packet::Packet& p) {
  drop(services, qp, reason, {.packet = &p});
}

/// Returns the state that it had.
QpState change_state(Services& services, QueuePair& qp, QpState to);

/// Puts a completion into its queue. A queue that overruns takes its queue pair down with it.
void complete(Services& services, QueuePair& qp, CompletionQueue& cq, const Completion& c);

/// Ends the oldest send request: a completion if it asked for one or `status` is an error.
void complete_send(Services& services, QueuePair& qp, CompletionStatus status);

/// Ends the oldest send request with an error, and with it the queue pair (RC, XRC) or its send
/// queue (UC, UD, raw packets: to SQE) (IBA 10.3.1.7).
void fail_send(Services& services, QueuePair& qp, CompletionStatus status);

/// To ERR: whatever is posted completes as flushed, in order. `why` is told to the program
/// where no completion does.
void enter_error(Services& services, QueuePair& qp, std::optional<EventKind> why = {});

/// In ERR and SQE: completes what was posted since.
void flush(Services& services, QueuePair& qp);

}  // namespace verbena::engine
