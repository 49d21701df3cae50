#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "packet/cm_attribute.h"
#include "packet/cm_timeout.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Reply to a request for communication (IBA 12.6.8).
struct CmRep {
  static constexpr CmAttribute kAttribute = CmAttribute::rep;
  static constexpr std::size_t kPrivateSize = 196;

  CommId local_id{};
  CommId remote_id{};
  std::uint32_t qkey = 0;
  Qpn qpn{};
  std::uint32_t eecn = 0;  // 24 bits; the QPN of an XRC target
  Psn starting_psn{};
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  CmTimeout target_ack_delay{};
  std::uint8_t failover = 0;  // 2 bits; 0: the alternate path was accepted
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  bool srq = false;
  std::uint64_t ca_guid = 0;
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmRep&, const CmRep&) = default;
};

[[nodiscard]] constexpr CmRep decode_cm_rep(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .qkey = load_be32(&b[8]),
          .qpn = Qpn{load_be24(&b[12])},
          .eecn = load_be24(&b[16]),
          .starting_psn = Psn{load_be24(&b[20])},
          .responder_resources = b[24],
          .initiator_depth = b[25],
          .target_ack_delay = CmTimeout{static_cast<unsigned>(b[26] >> 3)},
          .failover = static_cast<std::uint8_t>((b[26] >> 1) & 3),
          .flow_control = (b[26] & 1) != 0,
          .rnr_retry_count = static_cast<std::uint8_t>(b[27] >> 5),
          .srq = (b[27] & 0x10) != 0,
          .ca_guid = load_be64(&b[28]),
          .private_data = load_bytes<CmRep::kPrivateSize>(&b[36])};
}

/// `b` is all zeros.
constexpr void encode_cm_rep(const CmRep& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  store_be32(&b[8], m.qkey);
  store_be24(&b[12], m.qpn.value());
  store_be24(&b[16], m.eecn);
  store_be24(&b[20], m.starting_psn.value());
  b[24] = m.responder_resources;
  b[25] = m.initiator_depth;
  b[26] = static_cast<std::uint8_t>((m.target_ack_delay.value() << 3) | ((m.failover & 3) << 1) |
                                    (m.flow_control ? 1 : 0));
  b[27] = static_cast<std::uint8_t>((m.rnr_retry_count << 5) | (m.srq ? 0x10 : 0));
  store_be64(&b[28], m.ca_guid);
  store_bytes(&b[36], m.private_data);
}

}  // namespace verbena::packet
