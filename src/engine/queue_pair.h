#pragma once

// A queue pair is plain state; the handlers in requester.h, completer.h and responder.h work on
// their own part of it.
//
//                 post_send                                    a request arrives
//                     |                                                |
//   SendQueue --> Requester --frames-->            --packets--> Responder --> ReceiveQueue
//                     ^  go back                                       |
//                 Completer  <--packets--         <--frames-- acknowledgements, READ responses
//                     |                                                |
//                 send CQ                                         receive CQ

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "engine/attributes.h"
#include "engine/completer.h"
#include "engine/completion_queue.h"
#include "engine/counters.h"
#include "engine/doorbell.h"
#include "engine/memory.h"
#include "engine/receive_queue.h"
#include "engine/requester.h"
#include "engine/responder.h"
#include "engine/send_queue.h"

namespace verbena::engine {

struct QpInit {
  PdId pd{};
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  std::uint32_t max_send = 0;
  std::uint32_t max_receive = 0;
  std::uint32_t max_send_sge = 0;
  std::uint32_t max_receive_sge = 0;
  std::uint32_t max_inline = 0;
  bool signal_all = false;
};

struct QueuePair {
  QueuePair(Qpn number, const QpInit& init)
      : qpn{number},
        pd{init.pd},
        send_cq{init.send_cq},
        receive_cq{init.receive_cq},
        signal_all{init.signal_all},
        sq{init.max_send, init.max_send_sge, init.max_inline},
        rq{init.max_receive, init.max_receive_sge} {}

  const Qpn qpn;
  const PdId pd;
  CompletionQueue* const send_cq;
  CompletionQueue* const receive_cq;
  const bool signal_all;

  std::atomic<QpState> state{QpState::reset};  // posting threads look at it
  QpAttributes attributes;
  SendQueue sq;
  ReceiveQueue rq;

  Requester requester;
  Completer completer;
  Responder responder;

  // The RNIC's bookkeeping.
  Doorbell doorbell;
  bool runnable = false;
  Instant timer_set = kNever;  // the earliest entry in the RNIC's timer queue
};

/// What the handlers need of the RNIC.
struct Services {
  const KeyTable& keys;
  Dma& dma;
  Counters counters;
  std::vector<CompletionQueue*> notifications;
  std::vector<Segment> segments;  // scratch of resolve()
};

/// Puts a completion into its queue. A queue that overruns takes its queue pair down with it.
void complete(Services& services, QueuePair& qp, CompletionQueue& cq, const Completion& c);

/// Ends the oldest send request: a completion if it asked for one or `status` is an error.
void complete_send(Services& services, QueuePair& qp, CompletionStatus status);

/// Ends the oldest send request with an error, then the queue pair (IBA 10.3.1, class "fatal").
void fail_send(Services& services, QueuePair& qp, CompletionStatus status);

/// To ERR: whatever is posted completes as flushed, in order.
void enter_error(Services& services, QueuePair& qp);

/// In ERR: completes what was posted since.
void flush(Services& services, QueuePair& qp);

/// The address ranges of bytes [offset, offset + length) of a gather list. False: a key is
/// wrong, the range is outside its region, or `access` isn't granted (IBA 10.6.3).
[[nodiscard]] bool resolve(const KeyTable& keys, PdId pd, std::span<const Sge> sges,
                           std::uint32_t offset, std::uint32_t length, unsigned access,
                           std::vector<Segment>& out);

}  // namespace verbena::engine
