#pragma once

// The IB connection manager without I/O (IBA chapter 12): messages and an instant in; messages,
// events and the next deadline out. Its calls and events are those of rdma_cm.
//
// Between processes that share an address, packet/cm_steering.h says whose a message is. A REQ or
// a SIDR_REQ for which no process listens goes to any one of them, which refuses it; and what
// concerns a connection of a process that was killed, too: it agrees to the end (DREP), or refuses
// to go on (REJ). One of them tells the peers of the killed process (orphans.h).

#include <cstddef>
#include <optional>
#include <vector>

#include "base/entropy.h"
#include "base/result.h"
#include "base/time.h"
#include "cm/core.h"
#include "cm/event.h"
#include "cm/orphans.h"
#include "cm/parameters.h"
#include "cm/route.h"
#include "cm/sidr.h"

namespace verbena::cm {

class ConnectionManager {
 public:
  ConnectionManager(const Config& config, Entropy& entropy)
      : core_{config, entropy}, sidr_{core_}, orphans_{core_} {}
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  // Of the owner. Errors are EINVAL but where a call says so. An id is valid from the call or the
  // event that gave it until destroy(), reject(), sidr_reply(), or the event that ends the
  // connection: unreachable, connect_error, timewait_exit, rejected; of datagrams established,
  // too. A timewait_exit follows disconnected; and rejected, when that comes after connect_response
  // or established.

  /// EADDRINUSE: somebody listens there already.
  [[nodiscard]] Result<ListenerId> listen(const ListenParameters& p) {
    return core_.listeners.add(p);
  }
  /// Requests that it was told of are the owner's still.
  void close(ListenerId id) { core_.listeners.remove(id); }

  /// ENOMEM: too many connections.
  [[nodiscard]] Result<ConnectionId> connect(const ConnectParameters& p, Instant now);
  /// Active, after connect_response: the RTU. There is no further event.
  [[nodiscard]] Status establish(ConnectionId id, const PrivateData& private_data = {});
  /// Passive, after connect_request.
  [[nodiscard]] Status accept(ConnectionId id, const AcceptParameters& p, Instant now);
  /// After connect_request or connect_response. The connection is gone.
  [[nodiscard]] Status reject(ConnectionId id, const RejectParameters& p);
  /// Established, or after the peer's disconnected.
  [[nodiscard]] Status disconnect(ConnectionId id, const PrivateData& private_data, Instant now);
  /// Passive: the queue pair received something, though no RTU came yet.
  [[nodiscard]] Status notify_established(ConnectionId id);
  /// At any time; an id that is over is fine. No events follow; what the peer must be told goes on
  /// without the owner.
  void destroy(ConnectionId id, Instant now);
  /// The program has seen the connect_request: it counts in the backlog no more.
  void taken(ConnectionId id);

  [[nodiscard]] Result<ConnectionId> sidr_request(const SidrRequestParameters& p, Instant now) {
    return sidr_.request(p, now);
  }
  /// After the connect_request of a datagram listener. The request is gone.
  [[nodiscard]] Status sidr_reply(ConnectionId id, const SidrReplyParameters& p);

  /// From connect_response or connect_request on; the numbers of our own end are those of accept().
  [[nodiscard]] std::optional<QpParameters> qp_parameters(ConnectionId id) const;
  [[nodiscard]] std::optional<State> state(ConnectionId id) const;

  // Deaths of other processes of the host.

  /// nullptr: nobody. They outlive the manager.
  void keep_records(Records* records) { core_.records = records; }
  /// Whether `record`, of a killed process, is the other end of a connection that is here.
  [[nodiscard]] bool is_peer(const ConnectionRecord& record) const;
  /// It is: ends the connection as a DREQ would.
  void peer_died(const ConnectionRecord& record, Instant now);
  /// Disconnects a connection of a killed process. The first DREQ leaves at `first`.
  void adopt(const ConnectionRecord& record, Instant first) { orphans_.adopt(record, first); }
  [[nodiscard]] std::size_t orphans() const { return orphans_.size(); }

  // Of the wire.

  void receive(const IncomingMad& mad, Instant now);
  /// The network reports that a message of ours was not delivered; `mad` is that message, its route
  /// seen from the receiver's reply. Counts for a REQ, SIDR_REQ or DREQ without an answer; other
  /// messages are retried as ever.
  void undelivered(const IncomingMad& mad, int code, Instant now);
  void expire(Instant now);
  /// When expire() must be called, though nothing happens before.
  [[nodiscard]] Instant next_deadline() const;
  /// Messages to send. Cleared by the caller.
  [[nodiscard]] std::vector<OutgoingMad>& outbox() { return core_.outbox; }
  /// Cleared by the caller.
  [[nodiscard]] std::vector<Event>& events() { return core_.events; }

  /// A DREQ waits for its DREP.
  [[nodiscard]] bool awaits_drep() const { return core_.table.any(State::dreq_sent); }
  /// Before the process ends: if a DREP was lost, nobody will answer the peer's next DREQ.
  void resend_dreps();

  /// Connections and resolutions, timewait included.
  [[nodiscard]] std::size_t connections() const { return core_.table.size() + sidr_.size(); }
  /// Final answers that are kept for retries of the requests.
  [[nodiscard]] std::size_t answers() const { return core_.answers.size(); }
  [[nodiscard]] const Counters& counters() const { return core_.counters; }

 private:
  [[nodiscard]] bool ends_orphan(const Received& r, const packet::CmMessage& message);
  void dispatch(const Received& r, const packet::CmMessage& message);
  [[nodiscard]] bool is_for_us(const packet::CmMessage& message) const;

  Core core_;
  Sidr sidr_;
  Orphans orphans_;
};

}  // namespace verbena::cm
