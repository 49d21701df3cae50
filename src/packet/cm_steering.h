#pragma once

// Which process a message of the connection manager is for, when several share an address. All
// of it stands at fixed places of the UDP payload, so that a classic BPF program can look:
//
//   offset  0  BTH    destination QPN 1 at 5
//          12  DETH
//          20  MAD    class 0x07 at 21, attribute id at 36
//          44  data of the message
//
//   message                              names the receiver by       offset, size
//   MRA REJ REP RTU DREQ DREP LAP APR    remote communication id     48, 4     slot in the top bits
//   SIDR_REP                             its own request id          44, 4     slot in the top bits
//   REQ SIDR_REQ                         service id                  52, 8     who listens
//
// A sender's own communication id is always at 44. A REJ whose remote id is 0 comes from a peer
// that never learned ours (reason 4, timeout, of a request that it takes back): it names nobody,
// and each process that listens has to look whether it knows the peer's id.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "base/bytes.h"
#include "base/service_id.h"
#include "packet/bth.h"
#include "packet/cm_attribute.h"
#include "packet/comm_id.h"
#include "packet/deth.h"
#include "packet/mad.h"

namespace verbena::packet {

/// Offsets in the UDP payload.
struct CmOffsets {
  static constexpr std::size_t kMad = Bth::kSize + Deth::kSize;
  static constexpr std::size_t kManagementClass = kMad + 1;
  static constexpr std::size_t kAttribute = kMad + 16;
  static constexpr std::size_t kData = kMad + MadHeader::kSize;
  static constexpr std::size_t kLocalId = kData;
  static constexpr std::size_t kRequestId = kData;  // of SIDR_REP
  static constexpr std::size_t kRemoteId = kData + 4;
  static constexpr std::size_t kServiceId = kData + 8;  // of REQ and SIDR_REQ
};
static_assert(CmOffsets::kAttribute == 36 && CmOffsets::kLocalId == 44 &&
              CmOffsets::kRemoteId == 48 && CmOffsets::kServiceId == 52);

struct ToSlot {
  std::uint32_t slot = 0;
  friend constexpr bool operator==(const ToSlot&, const ToSlot&) = default;
};
struct ToListener {
  ServiceId service{};
  friend constexpr bool operator==(const ToListener&, const ToListener&) = default;
};
struct ToEveryListener {
  friend constexpr bool operator==(const ToEveryListener&, const ToEveryListener&) = default;
};
using CmTarget = std::variant<ToSlot, ToListener, ToEveryListener>;

/// `payload` begins with the BTH. nullopt: not a message of the connection manager to QP 1.
[[nodiscard]] constexpr std::optional<CmTarget> cm_target(std::span<const std::uint8_t> payload) {
  if (payload.size() < CmOffsets::kMad + kMadSize) return std::nullopt;
  if (destination_qpn_of(payload) != kGsiQpn) return std::nullopt;
  if (payload[CmOffsets::kManagementClass] != kCmClass) return std::nullopt;
  const auto slot_at = [&payload](std::size_t offset) -> CmTarget {
    const CommId id{load_be32(&payload[offset])};
    if (!id.known()) return ToEveryListener{};
    return ToSlot{id.slot()};
  };
  switch (static_cast<CmAttribute>(load_be16(&payload[CmOffsets::kAttribute]))) {
    case CmAttribute::req:
    case CmAttribute::sidr_req:
      return ToListener{ServiceId{load_be64(&payload[CmOffsets::kServiceId])}};
    case CmAttribute::sidr_rep:
      return slot_at(CmOffsets::kRequestId);
    case CmAttribute::mra:
    case CmAttribute::rej:
    case CmAttribute::rep:
    case CmAttribute::rtu:
    case CmAttribute::dreq:
    case CmAttribute::drep:
    case CmAttribute::lap:
    case CmAttribute::apr:
      return slot_at(CmOffsets::kRemoteId);
  }
  return std::nullopt;
}

}  // namespace verbena::packet
