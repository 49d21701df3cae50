#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Reply to a request for communication release (IBA 12.6.11).
struct CmDrep {
  static constexpr CmAttribute kAttribute = CmAttribute::drep;
  static constexpr std::size_t kPrivateSize = 224;

  CommId local_id{};
  CommId remote_id{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmDrep&, const CmDrep&) = default;
};

[[nodiscard]] constexpr CmDrep decode_cm_drep(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .private_data = load_bytes<CmDrep::kPrivateSize>(&b[8])};
}

/// `b` is all zeros.
constexpr void encode_cm_drep(const CmDrep& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  store_bytes(&b[8], m.private_data);
}

}  // namespace verbena::packet
