// Completion queues and shared receive queues.

#include <cerrno>
#include <memory>
#include <mutex>

#include "host/nic_state.h"

namespace verbena::host {

namespace {

Status check_entries(std::uint32_t entries) {
  if (entries > 0 && entries <= engine::Limits::kMaxCompletions) return Ok{};
  return Error{EINVAL, fmt::format("{} entries; a completion queue has 1 to {}", entries,
                                   engine::Limits::kMaxCompletions)};
}

}  // namespace

Status Nic::resize_cq(CompletionQueue& cq, std::uint32_t entries) {
  if (auto legal = check_entries(entries); !legal) return legal;
  return state_->shard_of(cq).locked([&](ShardState&) -> Status {
    const std::lock_guard polling{cq.polling};
    if (cq.resize(entries)) return Ok{};
    return Error{EINVAL, fmt::format("more than {} completions wait in it", entries)};
  });
}

Result<CompletionQueue*> Nic::create_cq(std::uint32_t entries, CompletionChannel* channel,
                                        EventSource* events, CompletionQueue::Overrun overrun) {
  if (auto legal = check_entries(entries); !legal) return legal.error();
  return new CompletionQueue{entries, channel, events, overrun};
}

void Nic::moderate_cq(CompletionQueue& cq, std::uint16_t count, Duration period) {
  state_->shard_of(cq).locked([&](ShardState&) { cq.moderate(count, period); });
}

Nic::Unacknowledged Nic::stop_events(CompletionQueue& cq) {
  return state_->shard_of(cq).locked([&](ShardState&) {
    return Unacknowledged{.completions = cq.channel != nullptr ? cq.channel->forget(cq) : 0,
                          .asynchronous = forget_events(cq.events)};
  });
}

Status Nic::destroy_cq(CompletionQueue* cq) {
  return state_->shard_of(*cq).locked([&](ShardState& s) -> Status {
    if (cq->users != 0) {
      return Error{EBUSY, fmt::format("{} queues still complete into it", cq->users)};
    }
    if (cq->channel != nullptr) cq->channel->forget(*cq);
    forget_events(cq->events);
    s.rnic.forget(*cq);
    delete cq;
    return Ok{};
  });
}

Result<SharedReceiveQueue*> Nic::create_srq(const engine::SrqInit& init, EventSource* events) {
  return state_->shard_of(init.pd).locked(
      [&](ShardState& s) { return s.rnic.create_srq<SharedReceiveQueue>(init, events); });
}

Status Nic::set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit) {
  return state_->shard_of(srq).locked(
      [&](ShardState& s) { return s.rnic.set_srq_limit(srq, limit); });
}

std::uint32_t Nic::srq_limit(const SharedReceiveQueue& srq) {
  return state_->shard_of(srq).locked([&](ShardState&) { return srq.limit; });
}

Result<unsigned> Nic::destroy_srq(SharedReceiveQueue* srq) {
  return state_->shard_of(*srq).locked([&](ShardState& s) -> Result<unsigned> {
    const EventSource* const events = srq->events;
    if (auto destroyed = s.rnic.destroy_srq(*srq); !destroyed) return destroyed.error();
    return forget_events(events);
  });
}

}  // namespace verbena::host
