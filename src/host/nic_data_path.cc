// The data path of the program: posts and polls.

#include <mutex>

#include "host/nic_state.h"
#include "host/progress/caller_policy.h"

namespace verbena::host {

namespace {

/// The library is loaded before the program starts.
[[gnu::tls_model("initial-exec")]] constinit thread_local PollerPatience patience;

/// The trace tells of a post once it is taken, with the time of the call: what it leads to may have
/// happened by then.
template <typename Queue, typename Request, typename Post>
engine::PostResult traced(Trace* trace, const Queue& queue, const Request& r, Post&& post) {
  if (trace == nullptr) return post();
  const Instant at = now();
  const engine::PostResult result = post();
  if (result == engine::PostResult::posted) trace->posted(at, queue, r);
  return result;
}

/// The source port of a datagram. False: its source is no address that the queue pair sends from.
bool add_source_port(const QueuePair& qp, engine::SendRequest& r) {
  const bool sends = qp.state.load(std::memory_order_relaxed) >= engine::QpState::rts;
  if (qp.type != engine::QpType::ud || !sends) return true;
  packet::Flow& flow = r.destination.flow;
  flow.source_port = qp.ports ? qp.ports->at(flow.source) : std::uint16_t{0};
  return flow.source_port != 0;
}

}  // namespace

engine::PostResult Nic::stage_send(QueuePair& qp, engine::SendRequest r, std::uint32_t staged) {
  if (!add_source_port(qp, r)) return engine::PostResult::bad_request;
  return engine::Rnic::stage_send(qp, r, staged);
}

engine::PostResult Nic::publish_sends(QueuePair& qp, std::uint32_t staged) {
  engine::SendQueue& queue = qp.sq;
  if (Trace* trace = state_->shard_of(qp).trace()) {
    const Instant at = now();
    for (std::uint64_t i = queue.tail(); i < queue.tail() + staged; ++i) {
      trace->posted(at, qp, queue.at(i));
    }
  }
  return state_->shard_of(qp).unlocked_rnic().publish_sends(qp, staged);
}

engine::PostResult Nic::post_send(QueuePair& qp, engine::SendRequest r) {
  if (!add_source_port(qp, r)) return engine::PostResult::bad_request;
  return traced(state_->shard_of(qp).trace(), qp, r,
                [&] { return state_->shard_of(qp).unlocked_rnic().post_send(qp, r); });
}

engine::PostResult Nic::post_receive(QueuePair& qp, const engine::ReceiveRequest& r) {
  return traced(state_->shard_of(qp).trace(), qp, r,
                [&] { return state_->shard_of(qp).unlocked_rnic().post_receive(qp, r); });
}

engine::PostResult Nic::post_receive(SharedReceiveQueue& srq, const engine::ReceiveRequest& r) {
  return traced(state_->shard_of(srq).trace(), srq, r,
                [&] { return engine::Rnic::post_receive(srq, r); });
}

void Nic::kick(QueuePair& qp) {
  Shard& shard = state_->shard_of(qp);
  if (!shard.posts_may_wait(qp)) shard.send_inline();
}

void Nic::arm(CompletionQueue& cq, bool solicited_only) {
  cq.arm(solicited_only);
  state_->thread().return_to_duty();
}

Result<CompletionQueue*> Nic::get_event(CompletionChannel& channel) {
  return state_->event_wait().get(channel);
}

void Nic::forget_channel(const CompletionChannel& channel) { state_->event_wait().forget(channel); }

std::size_t Nic::take(CompletionQueue& cq, std::span<engine::Completion> out) {
  if (cq.empty()) return 0;  // most polls
  const std::lock_guard lock{cq.polling};
  return cq.poll(out);
}

std::size_t Nic::poll(CompletionQueue& cq, std::span<engine::Completion> out) {
  std::size_t n = take(cq, out);
  if (n == 0) {
    // The peer may be waiting for this core. Give it up before the second look, not after it: a
    // program whose poll found nothing looks elsewhere, so the answer must be fresh.
    if (patience.is_over()) state_->event_wait().rest(now(), cq);
    const Instant when = state_->shard_of(cq).progress_inline(cq);
    n = take(cq, out);
    if (n == 0) patience.found_nothing(when);
  }
  if (n > 0) {
    state_->thread().found();
    patience.found();
  }
  return n;
}

}  // namespace verbena::host
