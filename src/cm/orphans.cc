#include "cm/orphans.h"

#include <algorithm>

#include "cm/timing.h"
#include "packet/cm_dreq.h"
#include "packet/cm_mad.h"

namespace verbena::cm {
namespace {

constexpr std::uint8_t kMostRetries = 15;  // a REQ can't ask for more

packet::CmDreq dreq_of(const ConnectionRecord& r) {
  return {.local_id = r.local_id, .remote_id = r.remote_id, .remote_qpn = r.remote_qpn};
}

OutgoingMad mad_of(const ConnectionRecord& r) {
  return {r.route, packet::encode_cm({r.local_id.value(), dreq_of(r)})};
}

}  // namespace

void Orphans::adopt(const ConnectionRecord& record, Instant first) {
  const auto [found, added] = orphans_.try_emplace(record.local_id.value(), Orphan{record});
  if (!added) {  // two dead processes of one slot had the same id: one peer of two is told
    ++core_.counters.orphans_dropped;
    return;
  }
  ++core_.counters.orphans_adopted;
  set_deadline(found->second, turn(first));
}

/// The turns of many orphans, a burst each. Those that begin later have their own.
Instant Orphans::turn(Instant first) {
  if (first > last_turn_) {
    last_turn_ = first;
    in_turn_ = 0;
  } else if (in_turn_ == kBurst) {
    last_turn_ += kBurstPause;
    in_turn_ = 0;
  }
  ++in_turn_;
  return last_turn_;
}

bool Orphans::ended(packet::CommId local_id, packet::CommId remote_id, const IpAddress& remote) {
  const auto found = orphans_.find(local_id.value());
  if (found == orphans_.end()) {
    return core_.records != nullptr && core_.records->end_orphan(local_id, remote_id, remote);
  }
  const ConnectionRecord& record = found->second.record;
  if (record.remote_id != remote_id || record.route.remote != remote) return false;
  remove(found->second);
  return true;
}

bool Orphans::undelivered(packet::CommId local_id, const IncomingMad& mad, Instant now) {
  const auto found = orphans_.find(local_id.value());
  if (found == orphans_.end()) return false;
  Orphan& o = found->second;
  if (!o.sent || !is_returned(mad_of(o.record), mad)) return false;
  if (const auto delay = o.undelivered.next_delay(now)) {
    o.retries.add_extra(now + *delay);
    set_deadline(o, o.retries.next());
  } else {
    ++core_.counters.undelivered;
    remove(o);
  }
  return true;
}

void Orphans::expire(Instant now) {
  while (const auto due = deadlines_.due(now)) send_or_give_up(orphans_.at(due->value()), now);
}

void Orphans::send_or_give_up(Orphan& o, Instant now) {
  const bool ours = core_.records != nullptr && core_.records->keeps(o.record.local_id);
  if (!ours) return remove(o);  // another process has taken the DREP
  if (!o.sent) {
    core_.send(o.record.route, o.record.local_id.value(), dreq_of(o.record));
    o.sent = true;
    o.retries = {now, bounded(o.record.response_interval),
                 std::min(o.record.max_retries, kMostRetries)};
  } else if (o.retries.advance(now)) {
    core_.resend(mad_of(o.record));
  } else {
    ++core_.counters.timeouts;
    return remove(o);
  }
  set_deadline(o, o.retries.next());
}

void Orphans::set_deadline(Orphan& o, Instant when) {
  deadlines_.remove(o.deadline, o.record.local_id);
  o.deadline = when;
  deadlines_.add(when, o.record.local_id);
}

void Orphans::remove(Orphan& o) {
  const packet::CommId id = o.record.local_id;
  deadlines_.remove(o.deadline, id);
  if (core_.records != nullptr) core_.records->withdraw(id);
  orphans_.erase(id.value());
}

}  // namespace verbena::cm
