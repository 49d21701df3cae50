#pragma once

// Frames to QP 1 that carry a message of the connection manager, as far as steering looks.

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "packet/cm_steering.h"

namespace verbena::wire::test {

/// Without ICRC.
inline std::vector<std::uint8_t> cm_frame(packet::CmAttribute attribute) {
  using packet::CmOffsets;
  std::vector<std::uint8_t> frame(CmOffsets::kMad + packet::kMadSize);
  frame[0] = 0x64;  // UD SEND only
  store_be24(&frame[5], packet::kGsiQpn.value());
  frame[CmOffsets::kManagementClass] = packet::kCmClass;
  store_be16(&frame[CmOffsets::kAttribute], static_cast<std::uint16_t>(attribute));
  store_be32(&frame[CmOffsets::kLocalId], 0x1234'5678);
  return frame;
}

inline std::vector<std::uint8_t> request(ServiceId service,
                                         packet::CmAttribute attribute = packet::CmAttribute::req) {
  auto frame = cm_frame(attribute);
  store_be64(&frame[packet::CmOffsets::kServiceId], service.value());
  return frame;
}

/// What names its receiver by communication id.
inline std::vector<std::uint8_t> reply(packet::CommId to,
                                       packet::CmAttribute attribute = packet::CmAttribute::rep) {
  auto frame = cm_frame(attribute);
  const bool sidr = attribute == packet::CmAttribute::sidr_rep;
  store_be32(&frame[sidr ? packet::CmOffsets::kRequestId : packet::CmOffsets::kRemoteId],
             to.value());
  return frame;
}

}  // namespace verbena::wire::test
