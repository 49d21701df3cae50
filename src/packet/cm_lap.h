#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/numbers.h"
#include "packet/cm_attribute.h"
#include "packet/cm_path.h"
#include "packet/cm_timeout.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// Load alternate path (IBA 12.8.1).
struct CmLap {
  static constexpr CmAttribute kAttribute = CmAttribute::lap;
  static constexpr std::size_t kPrivateSize = 168;

  CommId local_id{};
  CommId remote_id{};
  Qpn remote_qpn{};  // of the receiver of the message
  CmTimeout remote_response_timeout{};
  CmPath alternate{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmLap&, const CmLap&) = default;
};

[[nodiscard]] constexpr CmLap decode_cm_lap(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .remote_qpn = Qpn{load_be24(&b[12])},
          .remote_response_timeout = CmTimeout{static_cast<unsigned>(b[15] >> 3)},
          .alternate = load_lap_path(&b[20]),
          .private_data = load_bytes<CmLap::kPrivateSize>(&b[64])};
}

/// `b` is all zeros.
constexpr void encode_cm_lap(const CmLap& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  store_be24(&b[12], m.remote_qpn.value());
  b[15] = static_cast<std::uint8_t>(m.remote_response_timeout.value() << 3);
  store_lap_path(&b[20], m.alternate);
  store_bytes(&b[64], m.private_data);
}

}  // namespace verbena::packet
