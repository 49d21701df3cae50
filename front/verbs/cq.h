#pragma once

#include <infiniband/verbs.h>

#include <mutex>

#include "base/result.h"
#include "front/verbs/acknowledge.h"
#include "host/nic.h"

namespace verbena::front {

/// Every completion queue has the extended form; ibv_cq is the beginning of ibv_cq_ex.
struct Cq : ibv_cq_ex, host::EventSource {
  host::Nic* nic = nullptr;
  host::CompletionQueue* queue = nullptr;
  unsigned users = 0;  // queue pairs; under lock_lists()

  // Between start_poll and end_poll (cq_ex.cc).
  bool single_threaded = false;
  bool polling = false;
  std::mutex extended;  // unless single_threaded
  engine::Completion current;
};

/// Only of a queue of ours.
[[nodiscard]] inline Cq& cq_of(ibv_cq* cq) {
  return static_cast<Cq&>(*reinterpret_cast<ibv_cq_ex*>(cq));
}
[[nodiscard]] inline Cq& cq_of(ibv_cq_ex* cq) { return static_cast<Cq&>(*cq); }
/// nullptr stays so.
[[nodiscard]] inline ibv_cq* to_c(Cq* cq) { return ibv_cq_ex_to_cq(cq); }

/// What a completion queue is made of.
struct CqInit {
  std::uint32_t entries = 0;
  void* user = nullptr;
  ibv_comp_channel* channel = nullptr;
  std::uint32_t vector = 0;
  host::CompletionQueue::Overrun overrun{};
};
[[nodiscard]] Result<Cq*> create_cq(ibv_context* context, const CqInit& init);

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr);

/// EBUSY while a queue pair uses it.
Status destroy(Cq* cq, Unacked unacked);

}  // namespace verbena::front
