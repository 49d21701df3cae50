#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "packet/cm_attribute.h"
#include "packet/cm_timeout.h"
#include "packet/comm_id.h"

namespace verbena::packet {

/// The message that a MRA or a REJ answers.
enum class CmAnswered : std::uint8_t { req = 0, rep = 1, other = 2 };

/// Message receipt acknowledgement: the answer takes longer (IBA 12.6.6).
struct CmMra {
  static constexpr CmAttribute kAttribute = CmAttribute::mra;
  static constexpr std::size_t kPrivateSize = 222;

  CommId local_id{};
  CommId remote_id{};
  CmAnswered message{};  // "other" is a LAP
  CmTimeout service_timeout{};
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmMra&, const CmMra&) = default;
};

[[nodiscard]] constexpr CmMra decode_cm_mra(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .remote_id = CommId{load_be32(&b[4])},
          .message = static_cast<CmAnswered>(b[8] >> 6),
          .service_timeout = CmTimeout{static_cast<unsigned>(b[9] >> 3)},
          .private_data = load_bytes<CmMra::kPrivateSize>(&b[10])};
}

/// `b` is all zeros.
constexpr void encode_cm_mra(const CmMra& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be32(&b[4], m.remote_id.value());
  b[8] = static_cast<std::uint8_t>(static_cast<unsigned>(m.message) << 6);
  b[9] = static_cast<std::uint8_t>(m.service_timeout.value() << 3);
  store_bytes(&b[10], m.private_data);
}

}  // namespace verbena::packet
