#include "engine/attributes.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace verbena::engine {

namespace {

struct Transition {
  QpState from;
  QpState to;
  unsigned required;
  unsigned optional;
};

// IBA table 91, the rows of RC. Any state may go to reset or error.
constexpr std::array kTransitions{
    Transition{QpState::reset, QpState::init, Attr::kPkeyIndex | Attr::kPort | Attr::kAccess, 0},
    Transition{QpState::init, QpState::init, 0, Attr::kPkeyIndex | Attr::kPort | Attr::kAccess},
    Transition{QpState::init, QpState::rtr,
               Attr::kPath | Attr::kPathMtu | Attr::kDestQpn | Attr::kRqPsn |
                   Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer,
               Attr::kAlternatePath | Attr::kAccess | Attr::kPkeyIndex},
    Transition{
        QpState::rtr, QpState::rts,
        Attr::kTimeout | Attr::kRetryCount | Attr::kRnrRetry | Attr::kSqPsn | Attr::kMaxRdAtomic,
        Attr::kCurrentState | Attr::kAccess | Attr::kMinRnrTimer | Attr::kAlternatePath |
            Attr::kPathMigration},
    Transition{QpState::rts, QpState::rts, 0,
               Attr::kCurrentState | Attr::kAccess | Attr::kMinRnrTimer | Attr::kAlternatePath |
                   Attr::kPathMigration},
};

constexpr std::array<std::pair<unsigned, std::string_view>, 18> kAttrNames{{
    {Attr::kCurrentState, "CUR_STATE"},
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

Status check_transition(QpState from, const QpAttributes& to, unsigned mask) {
  const QpState target = (mask & Attr::kState) != 0 ? to.state : from;
  if ((mask & Attr::kCurrentState) != 0 && to.current_state != from) {
    return refused(from, target, "cur_qp_state says " + std::string{name_of(to.current_state)});
  }
  if (target == QpState::reset || target == QpState::error) return Ok{};

  for (const Transition& t : kTransitions) {
    if (t.from != from || t.to != target) continue;
    const unsigned given = mask & ~Attr::kState;
    if (const unsigned missing = t.required & ~given; missing != 0) {
      return refused(from, target, "needs " + names_of(missing));
    }
    if (const unsigned extra = given & ~(t.required | t.optional); extra != 0) {
      return refused(from, target, "may not set " + names_of(extra));
    }
    return Ok{};
  }
  return refused(from, target, "there is no such transition for RC");
}

void apply(QpAttributes& current, const QpAttributes& to, unsigned mask) {
  const auto take = [&](unsigned bit, auto QpAttributes::*member) {
    if ((mask & bit) != 0) current.*member = to.*member;
  };
  take(Attr::kState, &QpAttributes::state);
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
}

}  // namespace verbena::engine
