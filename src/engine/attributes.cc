#include "engine/attributes.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace verbena::engine {

namespace {

/// By QpType: rc, uc, ud, xrc_send, xrc_receive, raw_packet.
using PerType = std::array<unsigned, 6>;

struct Transition {
  QpState from;
  QpState to;
  PerType required;
  PerType optional;
};

using A = Attr;

constexpr unsigned kBirth = A::kPkeyIndex | A::kPort | A::kAccess;
constexpr unsigned kBirthUd = A::kPkeyIndex | A::kPort | A::kQkey;
constexpr unsigned kBirthRaw = A::kPort;
constexpr unsigned kConnect = A::kPath | A::kPathMtu | A::kDestQpn | A::kRqPsn;
constexpr unsigned kServe = A::kMaxDestRdAtomic | A::kMinRnrTimer;
constexpr unsigned kAsk = A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSqPsn | A::kMaxRdAtomic;
constexpr unsigned kMigrate = A::kAlternatePath | A::kPathMigration;
// What may change while the queue pair runs.
constexpr unsigned kRunning = A::kCurrentState | A::kAccess | kMigrate;
constexpr unsigned kRunningUd = A::kCurrentState | A::kQkey;
constexpr unsigned kBeforeServing = A::kAlternatePath | A::kAccess | A::kPkeyIndex;
constexpr PerType kRunningAll{kRunning | A::kMinRnrTimer, kRunning, kRunningUd, kRunning,
                              kRunning | A::kMinRnrTimer, 0};
// What may change while the send queue is drained.
constexpr unsigned kDrained = A::kPath | A::kAccess | A::kPkeyIndex | kMigrate;

// IBA table 91. Any state may go to reset or error.
constexpr std::array kTransitions{
    Transition{
        QpState::reset, QpState::init, {kBirth, kBirth, kBirthUd, kBirth, kBirth, kBirthRaw}, {}},
    Transition{
        QpState::init, QpState::init, {}, {kBirth, kBirth, kBirthUd, kBirth, kBirth, kBirthRaw}},
    Transition{QpState::init,
               QpState::rtr,
               {kConnect | kServe, kConnect, 0, kConnect, kConnect | kServe, 0},
               {kBeforeServing, kBeforeServing, A::kPkeyIndex | A::kQkey, kBeforeServing,
                kBeforeServing, 0}},
    Transition{QpState::rtr,
               QpState::rts,
               {kAsk, A::kSqPsn, A::kSqPsn, kAsk, A::kTimeout | A::kSqPsn, 0},
               kRunningAll},
    Transition{QpState::rts, QpState::rts, {}, kRunningAll},
    Transition{QpState::rts,
               QpState::sqd,
               {},
               {A::kNotifyDrained, A::kNotifyDrained, A::kNotifyDrained, A::kNotifyDrained,
                A::kNotifyDrained, A::kNotifyDrained}},
    Transition{QpState::sqd, QpState::rts, {}, kRunningAll},
    Transition{QpState::sqd,
               QpState::sqd,
               {},
               {kDrained | A::kPort | A::kTimeout | A::kRetryCount | A::kRnrRetry |
                    A::kMaxRdAtomic | kServe,
                kDrained, A::kPkeyIndex | A::kQkey,
                kDrained | A::kPort | A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kMaxRdAtomic,
                kDrained | A::kPort | A::kTimeout | kServe, 0}},
    // RC has no SQE: its send errors are fatal.
    Transition{
        QpState::sqe, QpState::rts, {}, {0, A::kCurrentState | A::kAccess, kRunningUd, 0, 0, 0}},
};

constexpr std::array<std::pair<unsigned, std::string_view>, 19> kAttrNames{{
    {Attr::kCurrentState, "CUR_STATE"},
    {Attr::kNotifyDrained, "EN_SQD_ASYNC_NOTIFY"},
    {Attr::kAccess, "ACCESS_FLAGS"},
    {Attr::kPkeyIndex, "PKEY_INDEX"},
    {Attr::kPort, "PORT"},
    {Attr::kQkey, "QKEY"},
    {Attr::kPath, "AV"},
    {Attr::kPathMtu, "PATH_MTU"},
    {Attr::kTimeout, "TIMEOUT"},
    {Attr::kRetryCount, "RETRY_CNT"},
    {Attr::kRnrRetry, "RNR_RETRY"},
    {Attr::kRqPsn, "RQ_PSN"},
    {Attr::kMaxRdAtomic, "MAX_QP_RD_ATOMIC"},
    {Attr::kAlternatePath, "ALT_PATH"},
    {Attr::kMinRnrTimer, "MIN_RNR_TIMER"},
    {Attr::kSqPsn, "SQ_PSN"},
    {Attr::kMaxDestRdAtomic, "MAX_DEST_RD_ATOMIC"},
    {Attr::kPathMigration, "PATH_MIG_STATE"},
    {Attr::kDestQpn, "DEST_QPN"},
}};

std::string names_of(unsigned mask) {
  std::string out;
  for (const auto& [bit, name] : kAttrNames) {
    if ((mask & bit) == 0) continue;
    if (!out.empty()) out += ", ";
    out += name;
    mask &= ~bit;
  }
  if (mask != 0) {
    if (!out.empty()) out += ", ";
    out += "unknown bits";
  }
  return out;
}

Error refused(QpState from, QpState to, std::string why) {
  return {EINVAL,
          std::string{name_of(from)} + " to " + std::string{name_of(to)} + ": " + std::move(why)};
}

}  // namespace

std::string_view name_of(QpState s) {
  switch (s) {
    case QpState::reset:
      return "RESET";
    case QpState::init:
      return "INIT";
    case QpState::rtr:
      return "RTR";
    case QpState::rts:
      return "RTS";
    case QpState::sqd:
      return "SQD";
    case QpState::sqe:
      return "SQE";
    case QpState::error:
      return "ERR";
  }
  return "?";
}

std::string_view name_of(QpType t) {
  switch (t) {
    case QpType::rc:
      return "RC";
    case QpType::uc:
      return "UC";
    case QpType::ud:
      return "UD";
    case QpType::xrc_send:
      return "XRC_SEND";
    case QpType::xrc_receive:
      return "XRC_RECV";
    case QpType::raw_packet:
      return "RAW_PACKET";
  }
  return "?";
}

Status check_transition(QpType type, QpState from, const QpAttributes& to, unsigned mask) {
  const QpState target = (mask & Attr::kState) != 0 ? to.state : from;
  if ((mask & Attr::kCurrentState) != 0 && to.current_state != from) {
    return refused(from, target, "cur_qp_state says " + std::string{name_of(to.current_state)});
  }
  const auto t = static_cast<std::size_t>(type);
  const unsigned given = mask & ~Attr::kState;
  if ((mask & Attr::kState) != 0 && (target == QpState::reset || target == QpState::error)) {
    const unsigned extra = given & ~Attr::kCurrentState;
    return extra == 0 ? Status{Ok{}} : refused(from, target, "may not set " + names_of(extra));
  }
  for (const Transition& row : kTransitions) {
    if (row.from != from || row.to != target) continue;
    if (const unsigned missing = row.required[t] & ~given; missing != 0) {
      return refused(from, target, "needs " + names_of(missing));
    }
    if (const unsigned extra = given & ~(row.required[t] | row.optional[t]); extra != 0) {
      return refused(from, target, "may not set " + names_of(extra));
    }
    return Ok{};
  }
  return refused(from, target, "there is no such transition for " + std::string{name_of(type)});
}

void apply(QpAttributes& current, const QpAttributes& to, unsigned mask) {
  const auto take = [&](unsigned bit, auto QpAttributes::*member) {
    if ((mask & bit) != 0) current.*member = to.*member;
  };
  take(Attr::kState, &QpAttributes::state);
  take(Attr::kNotifyDrained, &QpAttributes::notify_drained);
  take(Attr::kAccess, &QpAttributes::access);
  take(Attr::kPkeyIndex, &QpAttributes::pkey_index);
  take(Attr::kPort, &QpAttributes::port);
  take(Attr::kQkey, &QpAttributes::qkey);
  take(Attr::kPath, &QpAttributes::path);
  take(Attr::kPath, &QpAttributes::flow);
  take(Attr::kPathMtu, &QpAttributes::path_mtu);
  take(Attr::kTimeout, &QpAttributes::timeout);
  take(Attr::kRetryCount, &QpAttributes::retry_count);
  take(Attr::kRnrRetry, &QpAttributes::rnr_retry);
  take(Attr::kRqPsn, &QpAttributes::rq_psn);
  take(Attr::kMaxRdAtomic, &QpAttributes::max_rd_atomic);
  take(Attr::kSqPsn, &QpAttributes::sq_psn);
  take(Attr::kMaxDestRdAtomic, &QpAttributes::max_dest_rd_atomic);
  take(Attr::kMinRnrTimer, &QpAttributes::min_rnr_timer);
  take(Attr::kDestQpn, &QpAttributes::dest_qpn);
  take(Attr::kAlternatePath, &QpAttributes::alternate);
  take(Attr::kPathMigration, &QpAttributes::migration);
}

}  // namespace verbena::engine
