#pragma once

// A whole message of the connection manager: bytes to value and back.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "packet/cm_apr.h"
#include "packet/cm_drep.h"
#include "packet/cm_dreq.h"
#include "packet/cm_lap.h"
#include "packet/cm_mra.h"
#include "packet/cm_rej.h"
#include "packet/cm_rep.h"
#include "packet/cm_req.h"
#include "packet/cm_rtu.h"
#include "packet/cm_sidr_rep.h"
#include "packet/cm_sidr_req.h"
#include "packet/mad.h"

namespace verbena::packet {

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq,
                               CmSidrRep, CmLap, CmApr>;

struct CmMad {
  std::uint64_t transaction = 0;  // an answer has that of the request
  CmMessage message{};

  friend bool operator==(const CmMad&, const CmMad&) = default;
};

/// Why received bytes are not a message of the connection manager. Each is a counter.
enum class CmMalformed : std::uint8_t {
  bad_size,
  bad_base_version,
  other_class,
  bad_class_version,
  bad_method,
  unknown_attribute,
};

using MadBytes = std::array<std::uint8_t, kMadSize>;

/// `bytes` is the payload of a UD SEND to QP 1. Total: any input gives a value or a reason.
[[nodiscard]] std::variant<CmMad, CmMalformed> decode_cm(std::span<const std::uint8_t> bytes);

[[nodiscard]] MadBytes encode_cm(const CmMad& mad);

[[nodiscard]] CmAttribute attribute_of(const CmMessage& message);

}  // namespace verbena::packet
