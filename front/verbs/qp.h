#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "base/result.h"
#include "front/verbs/acknowledge.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/send_batch.h"
#include "host/nic.h"

namespace verbena::front {

struct WqTable;

/// Every queue pair has the extended form, which begins with the classic one, `qp_base`.
struct Qp : newer::QpEx, host::EventSource {
  host::Nic* nic = nullptr;
  host::QueuePair* pair = nullptr;
  ibv_qp_cap cap{};
  bool signal_all = false;
  WqTable* table = nullptr;          // that it spreads its frames over
  std::unique_ptr<SendBatch> batch;  // of one that was made with send_ops_flags
};

/// Only of a queue pair of ours.
[[nodiscard]] inline Qp& qp_of(ibv_qp* qp) {
  return static_cast<Qp&>(*reinterpret_cast<ibv_qp_ex*>(qp));
}
[[nodiscard]] inline Qp& qp_of(ibv_qp_ex* qp) { return static_cast<Qp&>(*qp); }

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

Status destroy(Qp* qp, Unacked unacked);

/// The error with the queue pair's number in front, unless it has it.
[[nodiscard]] Status of_qp(std::uint32_t qpn, Status status);

}  // namespace verbena::front
