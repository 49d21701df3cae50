#include "host/observation/activity.h"

#include <fmt/format.h>

namespace verbena::host {
namespace {

std::optional<Activity::Queue> completions_of(const engine::CompletionQueue* cq) {
  if (cq == nullptr) return std::nullopt;
  return Activity::Queue{cq->capacity(), cq->waiting()};
}

std::string object_of(const std::optional<Activity::Queue>& cq) {
  if (!cq) return "null";
  return fmt::format(R"({{"entries":{},"waiting":{}}})", cq->entries, cq->waiting);
}

}  // namespace

Activity activity_of(const engine::QueuePair& qp) {
  const std::uint64_t head = qp.sq.head();
  const engine::Requester& r = qp.requester;
  const std::uint64_t whole = r.wqe > head ? r.wqe - head : 0;
  const engine::ReceiveQueue& receives = qp.srq != nullptr ? *qp.srq : qp.rq;
  return {.state = qp.state.load(std::memory_order_relaxed),
          .send = {qp.sq.depth(), qp.sq.tail() - head},
          .in_flight = whole + (r.packet != 0 ? 1 : 0),
          .completed = head,
          .receive = {receives.depth(), receives.size()},
          .shared = qp.srq != nullptr,
          .send_completions = completions_of(qp.send_cq),
          .receive_completions = completions_of(qp.receive_cq)};
}

std::string members_of(const Activity& a) {
  return fmt::format(
      R"("state":"{}","send_queue":{{"entries":{},"posted":{},"in_flight":{},"completed":{}}},)"
      R"("receive_queue":{{"entries":{},"posted":{},"shared":{}}},"send_cq":{},"receive_cq":{},)",
      name_of(a.state), a.send.entries, a.send.waiting, a.in_flight, a.completed, a.receive.entries,
      a.receive.waiting, a.shared, object_of(a.send_completions), object_of(a.receive_completions));
}

}  // namespace verbena::host
