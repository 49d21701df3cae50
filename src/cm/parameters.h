#pragma once

// What the owner of the connection manager gives to its calls.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/service_id.h"
#include "base/time.h"
#include "packet/bth.h"
#include "packet/cm_rej.h"
#include "packet/cm_req.h"
#include "packet/cm_sidr_rep.h"
#include "packet/cm_timeout.h"
#include "packet/ip_cm_header.h"

namespace verbena::cm {

/// Names a connection or a service id resolution towards the owner. Never used twice.
enum class ConnectionId : std::uint64_t {};
/// Never used twice.
enum class ListenerId : std::uint64_t {};

using PrivateData = std::vector<std::uint8_t>;

/// What a program may put into a REQ and a SIDR_REQ to an IP port.
inline constexpr std::size_t kIpReqPrivateSize =
    packet::CmReq::kPrivateSize - packet::IpCmHeader::kSize;
inline constexpr std::size_t kIpSidrPrivateSize = 216 - packet::IpCmHeader::kSize;
static_assert(kIpReqPrivateSize == 56 && kIpSidrPrivateSize == 180);

/// rdma_cm's own, in the kernel: 4.3 s for the peer's answer, 15 counted retries.
inline constexpr packet::CmTimeout kResponseTimeout{20};
inline constexpr std::uint8_t kMaxRetries = 15;

enum class Transport : std::uint8_t { rc, uc, xrc };

struct ListenParameters {
  enum class Family : std::uint8_t { any, v4, v6 };

  ServiceId service{};
  bool datagram = false;               // answers SIDR_REQ instead of REQ
  std::optional<IpAddress> address{};  // nullopt: every address …
  Family family = Family::any;         // … of this family
  /// Requests that the owner has not taken() yet; more are dropped, and their senders try again.
  std::uint32_t backlog = 1024;
};

/// One end's queue pair, as it is offered to the other end.
struct QueuePairOffer {
  Qpn qpn{};
  Psn starting_psn{};                    // that it expects of the peer (IBA 12.7.31)
  std::uint8_t responder_resources = 0;  // READs and atomics of the peer that it can answer at once
  std::uint8_t initiator_depth = 0;      // READs and atomics that it will have outstanding
  std::uint8_t rnr_retry_count = 7;
  bool flow_control = false;
  bool srq = false;
};

struct ConnectParameters {
  IpAddress source{};
  IpAddress destination{};
  ServiceId service{};
  std::uint16_t source_port = 0;  // goes into the IP addressing header, where the service has one
  std::uint64_t ca_guid = 0;
  Transport transport{};
  QueuePairOffer offer{};
  std::uint8_t retry_count = 7;
  packet::PathMtu mtu = packet::PathMtu::mtu_1024;
  packet::CmTimeout ack_timeout{19};
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  packet::CmTimeout response_timeout = kResponseTimeout;  // of both ends' connection managers
  std::uint8_t max_retries = kMaxRetries;
  PrivateData private_data{};
};

struct AcceptParameters {
  std::uint64_t ca_guid = 0;
  QueuePairOffer offer{};
  PrivateData private_data{};
};

struct RejectParameters {
  packet::RejectReason reason = packet::RejectReason::consumer;
  std::vector<std::uint8_t> additional_info{};
  PrivateData private_data{};
};

struct SidrRequestParameters {
  IpAddress source{};
  IpAddress destination{};
  ServiceId service{};
  std::uint16_t source_port = 0;
  Duration timeout = std::chrono::milliseconds{4096};  // of one try; as the kernel's
  std::uint8_t max_retries = kMaxRetries;
  PrivateData private_data{};
};

struct SidrReplyParameters {
  packet::SidrStatus status = packet::SidrStatus::valid;
  Qpn qpn{};
  std::uint32_t qkey = 0;
  PrivateData private_data{};
};

}  // namespace verbena::cm
