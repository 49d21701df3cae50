#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/service_id.h"
#include "packet/bth.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Service id resolution request: which UD queue pair serves it (IBA 12.11.1)?
struct CmSidrReq {
  static constexpr CmAttribute kAttribute = CmAttribute::sidr_req;
  static constexpr std::size_t kPrivateSize = 216;

  CommId request_id{};
  std::uint16_t pkey = kDefaultPkey;
  ServiceId service{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmSidrReq&, const CmSidrReq&) = default;
};

[[nodiscard]] constexpr CmSidrReq decode_cm_sidr_req(CmData b) {
  return {.request_id = CommId{load_be32(&b[0])},
          .pkey = load_be16(&b[4]),
          .service = ServiceId{load_be64(&b[8])},
          .private_data = load_bytes<CmSidrReq::kPrivateSize>(&b[16])};
}

/// `b` is all zeros.
constexpr void encode_cm_sidr_req(const CmSidrReq& m, CmDataOut b) {
  store_be32(&b[0], m.request_id.value());
  store_be16(&b[4], m.pkey);
  store_be64(&b[8], m.service.value());
  store_bytes(&b[16], m.private_data);
}

}  // namespace verbena::packet
