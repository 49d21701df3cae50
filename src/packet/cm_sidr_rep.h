#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/numbers.h"
#include "base/service_id.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// IBA 12.11.2.1. rdma_cm's events carry the number.
enum class SidrStatus : std::uint8_t {
  valid = 0,
  unsupported_service = 1,
  rejected = 2,
  no_qp = 3,
  redirect = 4,
  unsupported_version = 5,
};

/// Service id resolution response (IBA 12.11.2).
struct CmSidrRep {
  static constexpr CmAttribute kAttribute = CmAttribute::sidr_rep;
  static constexpr std::size_t kPrivateSize = 136;

  CommId request_id{};  // of the requester
  SidrStatus status{};
  std::uint8_t info_length = 0;  // a peer's may be longer than the room for it
  Qpn qpn{};
  ServiceId service{};
  std::uint32_t qkey = 0;
  CmAdditionalInfo info{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmSidrRep&, const CmSidrRep&) = default;
};

[[nodiscard]] constexpr CmSidrRep decode_cm_sidr_rep(CmData b) {
  return {.request_id = CommId{load_be32(&b[0])},
          .status = static_cast<SidrStatus>(b[4]),
          .info_length = b[5],
          .qpn = Qpn{load_be24(&b[8])},
          .service = ServiceId{load_be64(&b[12])},
          .qkey = load_be32(&b[20]),
          .info = load_bytes<72>(&b[24]),
          .private_data = load_bytes<CmSidrRep::kPrivateSize>(&b[96])};
}

/// `b` is all zeros.
constexpr void encode_cm_sidr_rep(const CmSidrRep& m, CmDataOut b) {
  store_be32(&b[0], m.request_id.value());
  b[4] = static_cast<std::uint8_t>(m.status);
  b[5] = m.info_length;
  store_be24(&b[8], m.qpn.value());
  store_be64(&b[12], m.service.value());
  store_be32(&b[20], m.qkey);
  store_bytes(&b[24], m.info);
  store_bytes(&b[96], m.private_data);
}

}  // namespace verbena::packet
