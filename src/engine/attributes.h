#pragma once

// Queue pair states and attributes (IBA 10.3.1, 11.2.5.2), numbered as in the verbs.

#include <cstdint>
#include <string_view>

#include "base/numbers.h"
#include "base/psn.h"
#include "base/result.h"
#include "packet/frame.h"

namespace verbena::engine {

enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, error };

[[nodiscard]] constexpr bool takes_responses(QpState s) {
  return s == QpState::rts || s == QpState::sqd;
}
[[nodiscard]] constexpr bool takes_requests(QpState s) {
  return takes_responses(s) || s == QpState::rtr || s == QpState::sqe;
}

[[nodiscard]] std::string_view name_of(QpState s);

/// XRC has an end that only sends and one that only serves. Raw packets are Ethernet frames.
enum class QpType : std::uint8_t { rc, uc, ud, xrc_send, xrc_receive, raw_packet };

[[nodiscard]] std::string_view name_of(QpType t);

/// Bits of the mask that says which attributes a modify call sets. As ibv_qp_attr_mask.
struct Attr {
  static constexpr unsigned kState = 1u << 0;
  static constexpr unsigned kCurrentState = 1u << 1;
  static constexpr unsigned kNotifyDrained = 1u << 2;
  static constexpr unsigned kAccess = 1u << 3;
  static constexpr unsigned kPkeyIndex = 1u << 4;
  static constexpr unsigned kPort = 1u << 5;
  static constexpr unsigned kQkey = 1u << 6;
  static constexpr unsigned kPath = 1u << 7;
  static constexpr unsigned kPathMtu = 1u << 8;
  static constexpr unsigned kTimeout = 1u << 9;
  static constexpr unsigned kRetryCount = 1u << 10;
  static constexpr unsigned kRnrRetry = 1u << 11;
  static constexpr unsigned kRqPsn = 1u << 12;
  static constexpr unsigned kMaxRdAtomic = 1u << 13;
  static constexpr unsigned kAlternatePath = 1u << 14;
  static constexpr unsigned kMinRnrTimer = 1u << 15;
  static constexpr unsigned kSqPsn = 1u << 16;
  static constexpr unsigned kMaxDestRdAtomic = 1u << 17;
  static constexpr unsigned kPathMigration = 1u << 18;
  static constexpr unsigned kDestQpn = 1u << 20;
};

/// The way to the peer, as the program named it. The host turns it into a Flow.
struct AddressVector {
  IpAddress destination{};  // dgid
  std::uint8_t source_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t service_level = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t port = 1;
  bool global = false;  // is_global; RoCE needs it
};

/// Where a queue pair would migrate to. Kept and told, never used: there is one port.
struct AlternatePath {
  AddressVector path{};
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;
  std::uint8_t timeout = 0;
};

struct QpAttributes {
  QpState state = QpState::reset;
  QpState current_state = QpState::reset;
  bool notify_drained = false;  // raise an event when SQD has drained the send queue
  unsigned access = 0;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 1;
  std::uint32_t qkey = 0;
  AddressVector path{};
  packet::Flow flow{};            // set by the host along with `path`
  std::uint16_t path_mtu = 1024;  // bytes
  std::uint8_t timeout = 0;       // 4.096 µs × 2^timeout; 0: forever
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;  // 7: forever
  Psn rq_psn{};
  Psn sq_psn{};
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  Qpn dest_qpn{};
  AlternatePath alternate{};
  std::uint8_t migration = 0;  // as ibv_mig_state: migrated, rearm, armed
  bool draining = false;       // in queries: SQD, and requests are still outstanding
};

/// Whether a queue pair in `from` may be modified so: EINVAL with the reason otherwise. A mask
/// without kState keeps the state.
[[nodiscard]] Status check_transition(QpType type, QpState from, const QpAttributes& to,
                                      unsigned mask);

/// Copies the attributes that `mask` names.
void apply(QpAttributes& current, const QpAttributes& to, unsigned mask);

}  // namespace verbena::engine
