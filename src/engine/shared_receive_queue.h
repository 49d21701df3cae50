#pragma once

#include <cstdint>

#include "base/numbers.h"
#include "engine/completion_queue.h"
#include "engine/memory_region.h"
#include "engine/receive_queue.h"

namespace verbena::engine {

struct SrqInit {
  PdId pd{};
  std::uint32_t depth = 0;
  std::uint32_t max_sge = 0;
  /// For XRC: where its receives complete. Others complete where their queue pair says.
  CompletionQueue* xrc_cq = nullptr;
  /// For XRC: only queue pairs of the same domain reach it.
  XrcdId xrcd{};
};

/// A receive queue of many queue pairs (IBA 10.2.9.3). Whoever owns the RNIC may derive from it:
/// see Rnic::create_srq().
struct SharedReceiveQueue : ReceiveQueue {
  SharedReceiveQueue(std::uint32_t srqn, const SrqInit& init)
      : ReceiveQueue{init.depth, init.max_sge},
        number{srqn},
        pd{init.pd},
        xrc_cq{init.xrc_cq},
        xrcd{init.xrcd} {}
  virtual ~SharedReceiveQueue() = default;
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  const std::uint32_t number;  // 24 bits; XRC requests name it
  const PdId pd;
  CompletionQueue* const xrc_cq;
  const XrcdId xrcd;
  std::uint32_t limit = 0;  // fewer receives than this raise one event; 0: none
  unsigned users = 0;
};

}  // namespace verbena::engine
