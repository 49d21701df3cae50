#include "front/verbs/qp_attributes.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace verbena::front {

namespace {

using engine::Attr;

constexpr unsigned kKnown = Attr::kState | Attr::kCurrentState | Attr::kNotifyDrained |
                            Attr::kAccess | Attr::kPkeyIndex | Attr::kPort | Attr::kQkey |
                            Attr::kPath | Attr::kPathMtu | Attr::kTimeout | Attr::kRetryCount |
                            Attr::kRnrRetry | Attr::kRqPsn | Attr::kMaxRdAtomic |
                            Attr::kAlternatePath | Attr::kMinRnrTimer | Attr::kSqPsn |
                            Attr::kMaxDestRdAtomic | Attr::kPathMigration | Attr::kDestQpn;
static_assert(Attr::kDestQpn == IBV_QP_DEST_QPN && Attr::kSqPsn == IBV_QP_SQ_PSN);

constexpr unsigned kAccess = engine::Access::kLocalWrite | engine::Access::kRemoteWrite |
                             engine::Access::kRemoteRead | engine::Access::kRemoteAtomic |
                             engine::Access::kFlushGlobal | engine::Access::kFlushPersistent;

static_assert(static_cast<int>(engine::QpState::error) == IBV_QPS_ERR);

Status check_range(const char* what, unsigned value, unsigned lowest, unsigned highest) {
  if (value >= lowest && value <= highest) return Ok{};
  return Error{EINVAL,
               fmt::format("{} {}: must be between {} and {}", what, value, lowest, highest)};
}

Status check_states(const ibv_qp_attr& from, unsigned mask) {
  if ((mask & IBV_QP_STATE) != 0) {
    if (Status s = check_range("qp_state", from.qp_state, IBV_QPS_RESET, IBV_QPS_ERR); !s) return s;
  }
  if ((mask & IBV_QP_CUR_STATE) != 0) {
    return check_range("cur_qp_state", from.cur_qp_state, IBV_QPS_RESET, IBV_QPS_ERR);
  }
  return Ok{};
}

/// Field widths of the wire (IBA 11.2.5.2) and the limits that the device reports.
Status check_values(const Context& context, const ibv_qp_attr& from, unsigned mask) {
  const auto check = [&](int bit, const char* what, unsigned value, unsigned lowest,
                         unsigned highest) -> Status {
    return (mask & static_cast<unsigned>(bit)) != 0 ? check_range(what, value, lowest, highest)
                                                    : Status{Ok{}};
  };
  using engine::Limits;
  for (const Status& s :
       {check(IBV_QP_PKEY_INDEX, "pkey_index", from.pkey_index, 0, 0),
        check(IBV_QP_PATH_MTU, "path_mtu", from.path_mtu, IBV_MTU_256, IBV_MTU_4096),
        check(IBV_QP_TIMEOUT, "timeout", from.timeout, 0, 31),
        check(IBV_QP_RETRY_CNT, "retry_cnt", from.retry_cnt, 0, 7),
        check(IBV_QP_RNR_RETRY, "rnr_retry", from.rnr_retry, 0, 7),
        check(IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", from.min_rnr_timer, 0, 31),
        check(IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", from.max_rd_atomic, 0,
              Limits::kMaxRdAtomic),
        check(IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", from.max_dest_rd_atomic, 0,
              Limits::kMaxRdAtomic),
        check(IBV_QP_PATH_MIG_STATE, "path_mig_state", from.path_mig_state, IBV_MIG_MIGRATED,
              IBV_MIG_ARMED),
        check(IBV_QP_ALT_PATH, "alt_timeout", from.alt_timeout, 0, 31),
        check(IBV_QP_ALT_PATH, "alt_pkey_index", from.alt_pkey_index, 0, 0),
        (mask & IBV_QP_ALT_PATH) != 0 ? check_port(context, from.alt_port_num) : Status{Ok{}},
        check(IBV_QP_DEST_QPN, "dest_qp_num", from.dest_qp_num, 0, Qpn::kMask),
        (mask & IBV_QP_PORT) != 0 ? check_port(context, from.port_num) : Status{Ok{}},
        (mask & IBV_QP_AV) != 0 ? check_port(context, from.ah_attr.port_num) : Status{Ok{}}}) {
    if (!s) return s;
  }
  return check_states(from, mask);
}

ibv_ah_attr path_to_c(const engine::AddressVector& from) {
  ibv_ah_attr to{};
  std::memcpy(to.grh.dgid.raw, from.destination.bytes().data(), sizeof to.grh.dgid.raw);
  to.grh.sgid_index = from.source_index;
  to.grh.traffic_class = from.traffic_class;
  to.grh.hop_limit = from.hop_limit;
  to.grh.flow_label = from.flow_label;
  to.sl = from.service_level;
  to.port_num = from.port;
  to.is_global = from.global ? 1 : 0;
  return to;
}

}  // namespace

engine::AddressVector path_from_c(const ibv_ah_attr& from) {
  IpAddress::Bytes gid;
  std::memcpy(gid.data(), from.grh.dgid.raw, gid.size());
  return {.destination = IpAddress{gid},
          .source_index = from.grh.sgid_index,
          .traffic_class = from.grh.traffic_class,
          .hop_limit = from.grh.hop_limit,
          .service_level = from.sl,
          .flow_label = from.grh.flow_label,
          .port = from.port_num,
          .global = from.is_global != 0};
}

ibv_mtu mtu_to_c(std::uint16_t bytes) {
  return static_cast<ibv_mtu>(std::bit_width(bytes) - std::bit_width(std::uint16_t{256}) +
                              IBV_MTU_256);
}

Result<engine::QpAttributes> attributes_from_c(const Context& context, const ibv_qp_attr& from,
                                               unsigned mask) {
  if (const unsigned bits = mask & ~kKnown; bits != 0) {
    // As the kernel: what came after the specification's attributes may be there or not.
    constexpr unsigned kStandard = 2u * IBV_QP_DEST_QPN - 1;
    return Error{(bits & ~kStandard) != 0 ? EOPNOTSUPP : EINVAL,
                 fmt::format("attr_mask {:#x}: {:#x} is not supported", mask, bits)};
  }
  if (const Status s = check_values(context, from, mask); !s) return s.error();

  const auto has = [&](int bit) { return (mask & static_cast<unsigned>(bit)) != 0; };
  engine::QpAttributes to;
  if (has(IBV_QP_STATE)) to.state = static_cast<engine::QpState>(from.qp_state);
  if (has(IBV_QP_CUR_STATE)) to.current_state = static_cast<engine::QpState>(from.cur_qp_state);
  if (has(IBV_QP_PATH_MTU)) to.path_mtu = static_cast<std::uint16_t>(128u << from.path_mtu);
  if (has(IBV_QP_AV)) to.path = path_from_c(from.ah_attr);
  if (has(IBV_QP_ALT_PATH)) {
    to.alternate = {.path = path_from_c(from.alt_ah_attr),
                    .pkey_index = from.alt_pkey_index,
                    .port = from.alt_port_num,
                    .timeout = from.alt_timeout};
  }
  to.notify_drained = from.en_sqd_async_notify != 0;
  to.migration = static_cast<std::uint8_t>(from.path_mig_state);
  to.access = from.qp_access_flags & kAccess;
  to.pkey_index = from.pkey_index;
  to.port = from.port_num;
  to.qkey = from.qkey;
  to.timeout = from.timeout;
  to.retry_count = from.retry_cnt;
  to.rnr_retry = from.rnr_retry;
  to.rq_psn = Psn{from.rq_psn};
  to.sq_psn = Psn{from.sq_psn};
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.dest_qpn = Qpn{from.dest_qp_num};
  return to;
}

ibv_qp_attr attributes_to_c(const engine::QpAttributes& from, const ibv_qp_cap& cap) {
  ibv_qp_attr to{};
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = to.qp_state;
  to.path_mtu = mtu_to_c(from.path_mtu);
  to.path_mig_state = static_cast<ibv_mig_state>(from.migration);
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn.value();
  to.sq_psn = from.sq_psn.value();
  to.dest_qp_num = from.dest_qpn.value();
  to.qp_access_flags = from.access;
  to.cap = cap;
  to.ah_attr = path_to_c(from.path);
  to.alt_ah_attr = path_to_c(from.alternate.path);
  to.alt_pkey_index = from.alternate.pkey_index;
  to.alt_port_num = from.alternate.port;
  to.alt_timeout = from.alternate.timeout;
  to.sq_draining = from.draining ? 1 : 0;
  to.pkey_index = from.pkey_index;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
  return to;
}

}  // namespace verbena::front
