#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Ready to use: the reply was received (IBA 12.6.9).
struct CmRtu {
  static constexpr CmAttribute kAttribute = CmAttribute::rtu;
  static constexpr std::size_t kPrivateSize = 224;

  CommId local_id{};
  CommId remote_id{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmRtu&, const CmRtu&) = default;
};

[[nodiscard]] constexpr CmRtu decode_cm_rtu(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .private_data = load_bytes<CmRtu::kPrivateSize>(&b[8])};
}

/// `b` is all zeros.
constexpr void encode_cm_rtu(const CmRtu& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  store_bytes(&b[8], m.private_data);
}

}  // namespace verbena::packet
