#pragma once

#include <cstdint>
#include <string_view>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/service_id.h"
#include "cm/parameters.h"
#include "packet/cm_req.h"
#include "packet/cm_timeout.h"

namespace verbena::cm {

/// Named and used as rdma_cm's events (RDMA_CM_EVENT_…). Of rejected, unreachable, connect_error
/// and disconnected a connection has exactly one, unless the owner destroys it before.
enum class EventKind : std::uint8_t {
  connect_request,   // passive; answer with accept(), reject(), sidr_reply() or destroy()
  connect_response,  // active; bring the queue pair to RTS, then establish() or destroy()
  established,       // passive: the peer is ready. Datagrams: the peer's queue pair is known
  rejected,          // status: the RejectReason
  unreachable,       // status: -ETIMEDOUT, or of datagrams the SidrStatus
  connect_error,     // the peer's answer could not be used; status: -errno
  disconnected,      // status: 0, or -ETIMEDOUT when the peer doesn't answer any more. When the
                     // peer began, answer with disconnect()
  timewait_exit,     // no packet of the connection is on the way any more
};

struct Endpoint {
  IpAddress address{};
  std::uint16_t port = 0;  // 0: the service has none

  friend constexpr bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What the peer wants, seen from here: its initiator depth is our responder resources.
struct PeerOffer {
  Endpoint local{};
  Endpoint remote{};
  ServiceId service{};
  Transport transport{};
  Qpn qpn{};
  std::uint32_t qkey = 0;  // datagrams
  Psn starting_psn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  packet::PathMtu mtu{};
  packet::CmTimeout target_ack_delay{};  // connect_response
};

struct Event {
  EventKind kind{};
  ConnectionId id{};
  ListenerId listener{};  // connect_request
  bool datagram = false;  // of a service id resolution
  int status = 0;
  PeerOffer offer{};  // connect_request, connect_response, established of datagrams
  PrivateData private_data{};
  std::vector<std::uint8_t> additional_info{};  // rejected
};

/// What the queue pair of a connection has to be set to, from RTR on.
struct QpParameters {
  Qpn remote_qpn{};
  IpAddress local{};
  IpAddress remote{};
  Psn rq_psn{};
  Psn sq_psn{};
  packet::PathMtu mtu{};
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t max_rd_atomic = 0;
  packet::CmTimeout timeout{};
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
};

[[nodiscard]] std::string_view text(EventKind kind);

}  // namespace verbena::cm
