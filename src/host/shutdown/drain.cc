#include "host/shutdown/drain.h"

#include <algorithm>
#include <thread>

namespace verbena::host {
namespace {

/// How long an ending process waits for the shard lock. exit() may have been called by a signal
/// handler, on a thread that holds it.
constexpr Duration kLockPatience = std::chrono::milliseconds{20};

}  // namespace

void drain(Shard& shard) {
  Instant last{};
  const auto look = [&](ShardState& s) { last = s.wires->delayed_until(); };
  if (!shard.locked_within(kLockPatience, look)) return;
  // Frames that left may have made room for others, which are delayed in turn. But frames that are
  // sent from now on needn't be waited for: retransmissions never end.
  const Instant end = last + kLockPatience;
  while (last > now() && now() < end) {
    std::this_thread::sleep_for(std::min(last, end) - now());
    if (!shard.locked_within(kLockPatience, look)) return;
  }
}

void send_final_acknowledgements(Shard& shard) {
  shard.locked_within(kLockPatience, [](ShardState&) {});
}

void write_reports(Shard& shard) {
  shard.locked_within(kLockPatience, [](ShardState& s) {
    if (Trace* trace = s.outputs.trace()) trace->write();
    if (s.outputs.wants_statistics()) {
      s.outputs.report(s.outputs.statistics(s.rnic, *s.wires));
    }
  });
}

}  // namespace verbena::host
