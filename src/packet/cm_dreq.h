#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/numbers.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Request for communication release (IBA 12.6.10).
struct CmDreq {
  static constexpr CmAttribute kAttribute = CmAttribute::dreq;
  static constexpr std::size_t kPrivateSize = 220;

  CommId local_id{};
  CommId remote_id{};
  Qpn remote_qpn{};  // of the receiver of the message
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmDreq&, const CmDreq&) = default;
};

[[nodiscard]] constexpr CmDreq decode_cm_dreq(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .remote_qpn = Qpn{load_be24(&b[8])},
          .private_data = load_bytes<CmDreq::kPrivateSize>(&b[12])};
}

/// `b` is all zeros.
constexpr void encode_cm_dreq(const CmDreq& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  store_be24(&b[8], m.remote_qpn.value());
  store_bytes(&b[12], m.private_data);
}

}  // namespace verbena::packet
