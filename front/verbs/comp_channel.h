#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "base/result.h"
#include "host/events/completion_channel.h"

namespace verbena::front {

struct CompChannel : ibv_comp_channel {
  std::unique_ptr<host::CompletionChannel> events;
};

/// Only of a channel of ours.
[[nodiscard]] inline CompChannel& channel_of(ibv_comp_channel* channel) {
  return static_cast<CompChannel&>(*channel);
}

/// EBUSY while a completion queue uses it.
Status destroy(CompChannel* channel);

}  // namespace verbena::front
