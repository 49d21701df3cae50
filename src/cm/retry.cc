#include "cm/retry.h"

#include <array>
#include <cerrno>
#include <cstdint>

#include "base/bytes.h"
#include "cm/rej.h"
#include "cm/timewait.h"

namespace verbena::cm {
namespace {

std::array<std::uint8_t, 8> guid_bytes(std::uint64_t guid) {
  std::array<std::uint8_t, 8> out{};
  store_be64(out.data(), guid);
  return out;
}

}  // namespace

void retry_or_give_up(Core& core, Connection& c, Instant now) {
  if (!c.pending.retries.advance(now)) return time_out(core, c, now);
  core.resend({c.route, c.pending.mad});
  core.reschedule(c);
}

void time_out(Core& core, Connection& c, Instant now) {
  ++core.counters.timeouts;
  if (c.state == State::dreq_sent) {
    core.tell(c, {.kind = EventKind::disconnected, .status = -ETIMEDOUT});
    return enter_timewait(core, c, now);
  }
  reject_for_timeout(core, c);
  core.tell(c, {.kind = EventKind::unreachable, .status = -ETIMEDOUT});
  core.remove(c);
}

void reject_for_timeout(Core& core, Connection& c) {
  const auto guid = guid_bytes(c.local_guid);
  const OutgoingMad rej =
      send_rej(core, c, packet::CmAnswered::other, packet::RejectReason::timeout, guid);
  if (c.remote_id.known()) core.remember(c, rej);
}

}  // namespace verbena::cm
