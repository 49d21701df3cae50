#pragma once

// Service id resolution: how users of datagrams find a queue pair.
//
//   active                                   passive
//   request(): SIDR_REQ                      SIDR_REQ for a listener
//        | retried until answered                 | connect_request
//        | SIDR_REP                               | reply(): SIDR_REP; retries of the
//   established or unreachable                    | request get the same one
//      gone                                     gone

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/deadlines.h"
#include "cm/listener_retry.h"
#include "cm/parameters.h"
#include "cm/retry_schedule.h"
#include "cm/undelivered_backoff.h"
#include "packet/cm_sidr_rep.h"
#include "packet/cm_sidr_req.h"

namespace verbena::cm {

class Sidr {
 public:
  explicit Sidr(Core& core) : core_{core} {}

  [[nodiscard]] Result<ConnectionId> request(const SidrRequestParameters& p, Instant now);
  /// Only when has(id).
  [[nodiscard]] Status reply(ConnectionId id, const SidrReplyParameters& p);
  void taken(ConnectionId id);
  void destroy(ConnectionId id);
  [[nodiscard]] bool has(ConnectionId id) const { return find(id) != nullptr; }

  void on_sidr_req(const Received& r, const packet::CmSidrReq& m);
  void on_sidr_rep(const Received& r, const packet::CmSidrRep& m);
  void on_undelivered(packet::CommId request_id, const IncomingMad& mad, int code, Instant now);
  void expire(Instant now);
  [[nodiscard]] Instant next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] std::size_t size() const { return resolutions_.size(); }

 private:
  struct Resolution {
    ConnectionId id{};
    bool active = false;
    packet::CommId request_id{};  // the requester's
    Route route{};
    std::uint64_t transaction = 0;
    PeerOffer peer{};
    // active
    packet::MadBytes mad{};
    RetrySchedule retries{};
    UndeliveredBackoff undelivered{};
    ListenerRetry listener_retry{};
    Instant deadline = kNever;
    // passive
    ListenerId backlog_place{};
    Instant request_over{};
  };

  [[nodiscard]] const Resolution* find(ConnectionId id) const;
  [[nodiscard]] Resolution* find(ConnectionId id);
  void set_deadline(Resolution& s, Instant when);
  void leave_backlog(Resolution& s);
  void answer(const Resolution& s, const packet::CmSidrRep& rep);
  void refuse(const Received& r, const packet::CmSidrReq& m, packet::SidrStatus status);
  void new_request(const Received& r, const packet::CmSidrReq& m);
  [[nodiscard]] bool retry_refused(Resolution& s, const packet::CmSidrRep& m, Instant now);
  void tell(const Resolution& s, Event event);
  void remove(Resolution& s);

  Core& core_;
  std::map<ConnectionId, Resolution> resolutions_;
  std::unordered_map<std::uint32_t, ConnectionId> active_;  // by request id
  std::map<RequestKey, ConnectionId> passive_;
  Deadlines<ConnectionId> deadlines_;
};

}  // namespace verbena::cm
