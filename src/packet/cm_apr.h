#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// IBA 12.8.2.1.
enum class AprStatus : std::uint8_t {
  loaded = 0,
  invalid_comm_id = 1,
  unsupported = 2,
  rejected = 3,
  redirect = 4,
  is_current = 5,
  invalid_qpn = 6,
  invalid_lid = 7,
  invalid_gid = 8,
  invalid_flow_label = 9,
  invalid_traffic_class = 10,
  invalid_hop_limit = 11,
  invalid_packet_rate = 12,
  invalid_service_level = 13,
};

/// Alternate path response (IBA 12.8.2).
struct CmApr {
  static constexpr CmAttribute kAttribute = CmAttribute::apr;
  static constexpr std::size_t kPrivateSize = 148;

  CommId local_id{};
  CommId remote_id{};
  std::uint8_t info_length = 0;  // a peer's may be longer than the room for it
  AprStatus status{};
  CmAdditionalInfo info{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmApr&, const CmApr&) = default;
};

[[nodiscard]] constexpr CmApr decode_cm_apr(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .info_length = b[8],
          .status = static_cast<AprStatus>(b[9]),
          .info = load_bytes<72>(&b[12]),
          .private_data = load_bytes<CmApr::kPrivateSize>(&b[84])};
}

/// `b` is all zeros.
constexpr void encode_cm_apr(const CmApr& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  b[8] = m.info_length;
  b[9] = static_cast<std::uint8_t>(m.status);
  store_bytes(&b[12], m.info);
  store_bytes(&b[84], m.private_data);
}

}  // namespace verbena::packet
