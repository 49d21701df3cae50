#pragma once

// One connection, from the first message to the end of timewait.
//
//        active                                       passive
//        ------                                       -------
//   connect(): REQ                              REQ for a listener
//          |                                            | connect_request
//      req_sent --- MRA: waits longer              req_rcvd --- REQ again, late: MRA
//          | REP                                        | accept(): REP
//          | connect_response                           |
//      rep_rcvd --- REP again, late: MRA           rep_sent --- MRA: waits longer
//          | establish(): RTU                           |  |    REQ again: REP
//          |                                        RTU |  | DREQ: the RTU was lost
//          |                                established |  |
//          +----------------> established <-------------+  |
//              REP again: RTU  |       |                   |
//           disconnect(): DREQ |       | DREQ              |
//                              |       | disconnected      |
//                        dreq_sent   dreq_rcvd <-----------+
//      DREP, or no answer, or  |       | disconnect(): DREP
//      the peer's DREQ: DREP   |       |
//                 disconnected |       |
//                              +-> timewait --- DREQ again: DREP;  REQ again: REJ 10
//                                      | timewait_exit
//                                    gone
//
// A REJ, from either side, ends a connection that is not established at once (rejected); of one
// that may have sent packets already there is a timewait. req_sent and rep_sent that are never
// answered end in unreachable. What destroy() finds half-way it ends as politely as the state
// allows, and goes on with it without the owner.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/time.h"
#include "cm/event.h"
#include "cm/listener_retry.h"
#include "cm/parameters.h"
#include "cm/retry_schedule.h"
#include "cm/route.h"
#include "cm/undelivered_backoff.h"
#include "packet/cm_req.h"
#include "packet/cm_timeout.h"
#include "packet/comm_id.h"

namespace verbena::cm {

enum class State : std::uint8_t {
  req_sent,
  rep_rcvd,
  req_rcvd,
  rep_sent,
  established,
  dreq_sent,
  dreq_rcvd,
  timewait,
};

[[nodiscard]] std::string_view text(State state);

/// A message that waits for its answer.
struct Pending {
  packet::MadBytes mad{};
  RetrySchedule retries{};
  bool peer_is_busy = false;         // a MRA came; a second one changes nothing
  UndeliveredBackoff undelivered{};  // in req_sent, dreq_sent
  ListenerRetry listener_retry{};    // in req_sent
};

struct Connection {
  ConnectionId id{};
  bool active = false;
  State state{};
  bool owned = true;  // the owner hears of it
  packet::CommId local_id{};
  packet::CommId remote_id{};  // unknown in req_sent
  Route route{};
  std::uint64_t local_guid = 0;
  std::uint64_t remote_guid = 0;
  std::uint64_t transaction = 0;                    // of the REQ; its answers have it, too
  std::optional<std::uint64_t> dreq_transaction{};  // of the peer's DREQ, once it came

  /// As messages saw it: the numbers of our own end as offered or accepted, and of the peer's.
  QueuePairOffer local{};
  PeerOffer peer{};
  packet::CmTimeout ack_timeout{};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;

  Duration response_interval{};  // for the peer's answers
  Duration peer_interval{};      // for ours, before the peer repeats its REQ or REP
  std::uint8_t max_retries = 0;
  Instant early_until{};   // in req_rcvd, rep_rcvd: until then the peer repeats early, if at all
  Instant request_over{};  // passive: the peer's REQ will not be repeated after this

  Pending pending{};           // in req_sent, rep_sent, dreq_sent
  packet::MadBytes rtu{};      // active, once it was sent
  Instant deadline = kNever;   // ConnectionTable::set_deadline() alone writes it
  ListenerId backlog_place{};  // passive: the listener in whose backlog it counts; 0: none

  // What both ends agreed on. The passive end has the last word: it saw the other's offer.
  [[nodiscard]] std::uint8_t responder_resources() const {
    return decided_by_peer() ? peer.responder_resources : local.responder_resources;
  }
  [[nodiscard]] std::uint8_t initiator_depth() const {
    return decided_by_peer() ? peer.initiator_depth : local.initiator_depth;
  }

 private:
  [[nodiscard]] bool decided_by_peer() const { return active || state == State::req_rcvd; }
};

}  // namespace verbena::cm
