#include "engine/packets_again.h"

#include <algorithm>
#include <iterator>

namespace verbena::engine {

std::uint32_t packets_again(const QueuePair& qp, std::uint32_t most) {
  const Requester& r = qp.requester;
  const auto range = std::find_if(r.asked.begin(), r.asked.end(),
                                  [&](Psn last) { return distance(last, r.psn) >= 0; });
  const bool begins = r.packet == 0 || r.psn == qp.completer.unacked ||
                      (range != r.asked.begin() && std::prev(range)->next() == r.psn);
  if (!begins) return 0;
  Psn last = range != r.asked.end() ? *range : r.psn;
  for (const Psn piece : r.pieces) {
    if (distance(piece, r.psn) >= 0 && distance(last, piece) > 0) last = piece;
  }
  return std::min(most, static_cast<std::uint32_t>(distance(last, r.psn)) + 1);
}

}  // namespace verbena::engine
