#pragma once

#include <cstdint>

#include "engine/queue_pair.h"

namespace verbena::engine {

/// How many packets may be asked for again, of `most`. A responder knows a duplicate READ by its
/// range: what is asked for again must lie within what was asked for before. And rxe forgets what
/// lies before the point from which it was asked again: so the rest of a range has to wait until
/// what comes before it is there. 0: not yet. It may have been asked for again in smaller pieces,
/// and the responder may know nothing but these: a piece is not asked for together with the next.
[[nodiscard]] std::uint32_t packets_again(const QueuePair& qp, std::uint32_t most);

}  // namespace verbena::engine
