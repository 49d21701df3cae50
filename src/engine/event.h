#pragma once

#include <cstdint>

namespace verbena::engine {

struct QueuePair;
struct SharedReceiveQueue;
class CompletionQueue;

/// Numbered as ibv_event_type.
enum class EventKind : std::uint8_t {
  cq_error = 0,
  qp_fatal = 1,
  qp_request_error = 2,
  qp_access_error = 3,
  communication_established = 4,
  sq_drained = 5,
  path_migrated = 6,
  srq_limit_reached = 15,
  last_wqe_reached = 16,
};

/// Something that no completion tells. The one pointer that fits the kind is set.
struct Event {
  EventKind kind{};
  QueuePair* qp = nullptr;
  CompletionQueue* cq = nullptr;
  SharedReceiveQueue* srq = nullptr;
};

}  // namespace verbena::engine
