#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/service_id.h"
#include "packet/bth.h"
#include "packet/cm_attribute.h"
#include "packet/cm_path.h"
#include "packet/cm_timeout.h"
#include "packet/comm_id.h"

namespace verbena::packet {

enum class CmTransport : std::uint8_t { rc = 0, uc = 1, rd = 2, extended = 3 };

/// A path's MTU as messages and verbs number it; a peer may send any other number.
enum class PathMtu : std::uint8_t {
  mtu_256 = 1,
  mtu_512 = 2,
  mtu_1024 = 3,
  mtu_2048 = 4,
  mtu_4096 = 5,
};

/// nullopt: not a number that means anything.
[[nodiscard]] constexpr std::optional<std::uint16_t> bytes_of(PathMtu mtu) {
  const auto n = static_cast<unsigned>(mtu);
  if (n < 1 || n > 5) return std::nullopt;
  return static_cast<std::uint16_t>(128u << n);
}

/// Request for communication (IBA 12.6.5).
struct CmReq {
  static constexpr CmAttribute kAttribute = CmAttribute::req;
  static constexpr std::size_t kPrivateSize = 92;
  static constexpr std::uint8_t kExtendedXrc = 1;

  CommId local_id{};
  ServiceId service{};
  std::uint64_t ca_guid = 0;
  std::uint32_t qkey = 0;
  Qpn qpn{};
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;  // 24 bits
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;  // 24 bits
  CmTimeout remote_response_timeout{};
  CmTransport transport{};
  bool flow_control = false;
  Psn starting_psn{};
  CmTimeout local_response_timeout{};
  std::uint8_t retry_count = 0;  // 3 bits
  std::uint16_t pkey = kDefaultPkey;
  PathMtu mtu{};
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  // 3 bits
  std::uint8_t max_cm_retries = 0;   // 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  // 3 bits
  CmPath primary{};
  CmPath alternate{};  // all zeros: none
  CmPrivateData<kPrivateSize> private_data{};

  friend constexpr bool operator==(const CmReq&, const CmReq&) = default;
};

[[nodiscard]] constexpr CmReq decode_cm_req(CmData b) {
  return {.local_id = CommId{load_be32(&b[0])},
          .service = ServiceId{load_be64(&b[8])},
          .ca_guid = load_be64(&b[16]),
          .qkey = load_be32(&b[28]),
          .qpn = Qpn{load_be24(&b[32])},
          .responder_resources = b[35],
          .local_eecn = load_be24(&b[36]),
          .initiator_depth = b[39],
          .remote_eecn = load_be24(&b[40]),
          .remote_response_timeout = CmTimeout{static_cast<unsigned>(b[43] >> 3)},
          .transport = static_cast<CmTransport>((b[43] >> 1) & 3),
          .flow_control = (b[43] & 1) != 0,
          .starting_psn = Psn{load_be24(&b[44])},
          .local_response_timeout = CmTimeout{static_cast<unsigned>(b[47] >> 3)},
          .retry_count = static_cast<std::uint8_t>(b[47] & 7),
          .pkey = load_be16(&b[48]),
          .mtu = static_cast<PathMtu>(b[50] >> 4),
          .rdc_exists = (b[50] & 8) != 0,
          .rnr_retry_count = static_cast<std::uint8_t>(b[50] & 7),
          .max_cm_retries = static_cast<std::uint8_t>(b[51] >> 4),
          .srq = (b[51] & 8) != 0,
          .extended_transport = static_cast<std::uint8_t>(b[51] & 7),
          .primary = load_request_path(&b[52]),
          .alternate = load_request_path(&b[96]),
          .private_data = load_bytes<CmReq::kPrivateSize>(&b[140])};
}

/// `b` is all zeros.
constexpr void encode_cm_req(const CmReq& m, CmDataOut b) {
  store_be32(&b[0], m.local_id.value());
  store_be64(&b[8], m.service.value());
  store_be64(&b[16], m.ca_guid);
  store_be32(&b[28], m.qkey);
  store_be24(&b[32], m.qpn.value());
  b[35] = m.responder_resources;
  store_be24(&b[36], m.local_eecn);
  b[39] = m.initiator_depth;
  store_be24(&b[40], m.remote_eecn);
  b[43] = static_cast<std::uint8_t>((m.remote_response_timeout.value() << 3) |
                                    ((static_cast<int>(m.transport) & 3) << 1) |
                                    (m.flow_control ? 1 : 0));
  store_be24(&b[44], m.starting_psn.value());
  b[47] = static_cast<std::uint8_t>((m.local_response_timeout.value() << 3) | (m.retry_count & 7));
  store_be16(&b[48], m.pkey);
  b[50] = static_cast<std::uint8_t>((static_cast<unsigned>(m.mtu) << 4) | (m.rdc_exists ? 8 : 0) |
                                    (m.rnr_retry_count & 7));
  b[51] = static_cast<std::uint8_t>((m.max_cm_retries << 4) | (m.srq ? 8 : 0) |
                                    (m.extended_transport & 7));
  store_request_path(&b[52], m.primary);
  store_request_path(&b[96], m.alternate);
  store_bytes(&b[140], m.private_data);
}

}  // namespace verbena::packet
