#pragma once

#include <cstdint>
#include <vector>

#include "tools/report/model.h"
#include "tools/report/observation.h"

namespace verbena::report {

/// Which conversation an observation belongs to. `side`: who posted, sent or completed; of a packet
/// that arrived, who had sent it.
struct Assigned {
  std::uint32_t conversation = kNone;
  Side side = Side::left;
};

struct Conversations {
  std::vector<Conversation> all;
  std::vector<Assigned> of;  // an entry for each observation
};

/// Finds out who talks to whom: by what queue pairs were told (states of a trace), by connection
/// messages, by the source in datagrams, and, where a capture has none of these, by the
/// acknowledgements that answer requests.
[[nodiscard]] Conversations find_conversations(const Observations& seen);

/// The observation's time where clocks differ: ns since 1970, as far as the observer knew.
[[nodiscard]] std::int64_t wall_time(const Observations& seen, const Observation& o);

}  // namespace verbena::report
