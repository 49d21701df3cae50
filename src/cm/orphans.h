#pragma once

// Orphans: connections of another process of this host, which was killed. This one disconnects
// them for it, with the ids that the peers know, as the kernel does for a process that ends. The
// DREQ is retried as ever (retry_schedule.h); a DREP may arrive at any process of the host.
//
//   adopt() ─► waits for its turn ─► DREQ ─► DREP here or elsewhere, or no retry left ─► gone

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "base/time.h"
#include "cm/connection_record.h"
#include "cm/core.h"
#include "cm/deadlines.h"
#include "cm/retry_schedule.h"
#include "cm/undelivered_backoff.h"

namespace verbena::cm {

class Orphans {
 public:
  /// DREQs that leave at once, and the pause until as many more do: all peers' sockets hold that.
  static constexpr std::size_t kBurst = 64;
  static constexpr Duration kBurstPause = std::chrono::milliseconds{1};

  explicit Orphans(Core& core) : core_{core} {}

  /// Its first DREQ leaves at `first`, or a little later if there are many.
  void adopt(const ConnectionRecord& record, Instant first);
  /// The peer of an orphan has disconnected, or forgotten the connection. False: of no orphan.
  bool ended(packet::CommId local_id, packet::CommId remote_id, const IpAddress& remote);
  /// The network reports that `mad` was not delivered. False: it is no orphan's.
  bool undelivered(packet::CommId local_id, const IncomingMad& mad, Instant now);
  void expire(Instant now);
  [[nodiscard]] Instant next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] std::size_t size() const { return orphans_.size(); }

 private:
  struct Orphan {
    ConnectionRecord record;
    bool sent = false;
    RetrySchedule retries{};
    UndeliveredBackoff undelivered{};
    Instant deadline = kNever;
  };

  [[nodiscard]] Instant turn(Instant first);
  void set_deadline(Orphan& o, Instant when);
  void send_or_give_up(Orphan& o, Instant now);
  void remove(Orphan& o);

  Core& core_;
  std::unordered_map<std::uint32_t, Orphan> orphans_;  // by local id
  Deadlines<packet::CommId> deadlines_;
  Instant last_turn_{};
  std::size_t in_turn_ = 0;
};

}  // namespace verbena::cm
