#pragma once

// What a queue pair is doing at this moment.

#include <cstdint>
#include <optional>
#include <string>

#include "engine/queue_pair.h"

namespace verbena::host {

struct Activity {
  struct Queue {
    std::uint64_t entries = 0;  // that fit
    std::uint64_t waiting = 0;  // requests that aren't complete, or completions to be polled
  };

  engine::QpState state{};
  Queue send{};
  std::uint64_t in_flight = 0;  // requests that have begun to leave, and aren't complete
  std::uint64_t completed = 0;  // requests, ever
  Queue receive{};
  bool shared = false;  // the receives are those of a shared queue
  // nullopt: it has none.
  std::optional<Queue> send_completions{};
  std::optional<Queue> receive_completions{};
};

/// Not any thread: the engine's.
[[nodiscard]] Activity activity_of(const engine::QueuePair& qp);

/// Members of a JSON object, each with a comma behind it.
[[nodiscard]] std::string members_of(const Activity& a);

}  // namespace verbena::host
