#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "packet/cm_attribute.h"
#include "packet/cm_mra.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Why (IBA 12.6.7.2). rdma_cm's events carry the number.
enum class RejectReason : std::uint16_t {
  no_qp = 1,
  no_eec = 2,
  no_resources = 3,
  timeout = 4,
  unsupported_request = 5,
  invalid_comm_id = 6,
  invalid_comm_instance = 7,
  invalid_service_id = 8,
  invalid_transport = 9,
  stale_connection = 10,
  no_rdc = 11,
  invalid_gid = 12,
  invalid_lid = 13,
  invalid_service_level = 14,
  invalid_traffic_class = 15,
  invalid_hop_limit = 16,
  invalid_packet_rate = 17,
  invalid_alternate_gid = 18,
  invalid_alternate_lid = 19,
  invalid_alternate_service_level = 20,
  invalid_alternate_traffic_class = 21,
  invalid_alternate_hop_limit = 22,
  invalid_alternate_packet_rate = 23,
  redirect_cm = 24,
  redirect_port = 25,
  invalid_mtu = 26,
  insufficient_responder_resources = 27,
  consumer = 28,
  invalid_rnr_retry = 29,
  duplicate_local_comm_id = 30,
  invalid_class_version = 31,
  invalid_flow_label = 32,
  invalid_alternate_flow_label = 33,
  vendor_option_not_supported = 35,
};

/// Reject (IBA 12.6.7).
struct CmRej {
  static constexpr CmAttribute kAttribute = CmAttribute::rej;
  static constexpr std::size_t kPrivateSize = 148;

  CommId local_id{};
  CommId remote_id{};
  CmAnswered message{};
  std::uint8_t info_length = 0;  // 7 bits; a peer's may be longer than the room for it
  RejectReason reason{};
  CmAdditionalInfo info{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmRej&, const CmRej&) = default;
};

[[nodiscard]] constexpr CmRej decode_cm_rej(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .message = static_cast<CmAnswered>(b[8] >> 6),
          .info_length = static_cast<std::uint8_t>(b[9] >> 1),
          .reason = static_cast<RejectReason>(load_be16(&b[10])),
          .info = load_bytes<72>(&b[12]),
          .private_data = load_bytes<CmRej::kPrivateSize>(&b[84])};
}

/// `b` is all zeros.
constexpr void encode_cm_rej(const CmRej& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  b[8] = static_cast<std::uint8_t>(static_cast<unsigned>(m.message) << 6);
  b[9] = static_cast<std::uint8_t>(m.info_length << 1);
  store_be16(&b[10], static_cast<std::uint16_t>(m.reason));
  store_bytes(&b[12], m.info);
  store_bytes(&b[84], m.private_data);
}

}  // namespace verbena::packet
