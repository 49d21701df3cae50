// XRC domains, shared receive queues and queue pairs: made and destroyed.

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "engine/responder_transmit.h"
#include "engine/rnic.h"
#include "engine/setup_error.h"
#include "engine/window_binding.h"

namespace verbena::engine {

Result<XrcdId> Rnic::open_xrcd() try {
  if (xrc_domains_.size() >= Limits::kMaxDomains) {
    return Error{ENOMEM, "all XRC domains are in use"};
  }
  while (next_xrcd_ == 0 || xrc_domains_.contains(next_xrcd_)) ++next_xrcd_;
  xrc_domains_.emplace(next_xrcd_, 0);
  return XrcdId{next_xrcd_++};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::close_xrcd(XrcdId xrcd) try {
  const auto it = xrc_domains_.find(static_cast<std::uint32_t>(xrcd));
  if (it == xrc_domains_.end()) return Error{EINVAL, "no such XRC domain"};
  if (it->second != 0) {
    return Error{EBUSY, std::to_string(it->second) + " queues are still in the XRC domain"};
  }
  xrc_domains_.erase(it);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<std::uint32_t> Rnic::prepare_srq(const SrqInit& init) {
  if (!domains_.contains(static_cast<std::uint32_t>(init.pd))) {
    return Error{EINVAL, "no such protection domain"};
  }
  if (srqs_.size() >= Limits::kMaxSharedQueues) {
    return Error{ENOMEM, "all shared receive queues are in use"};
  }
  if (init.depth == 0 || init.depth > Limits::kMaxQueueDepth) {
    return over_limit("max_wr", init.depth, Limits::kMaxQueueDepth);
  }
  if (init.max_sge > Limits::kMaxSge) return over_limit("max_sge", init.max_sge, Limits::kMaxSge);
  if (init.xrc_cq != nullptr && !xrc_domains_.contains(static_cast<std::uint32_t>(init.xrcd))) {
    return Error{EINVAL, "no such XRC domain"};
  }
  make_room_for_queues();
  std::uint32_t number = entropy_.next() & Qpn::kMask;
  while (number == 0 || srqs_.contains(number)) number = entropy_.next() & Qpn::kMask;
  return number;
}

void Rnic::add(std::unique_ptr<SharedReceiveQueue> srq) {
  const SharedReceiveQueue& added = *srq;
  srqs_.emplace(added.number, std::move(srq));
  ++domains_.at(static_cast<std::uint32_t>(added.pd));
  if (added.xrc_cq != nullptr) {
    ++added.xrc_cq->users;
    ++xrc_domains_.at(static_cast<std::uint32_t>(added.xrcd));
  }
}

Status Rnic::set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit) try {
  if (limit > srq.depth()) return over_limit("srq_limit", limit, srq.depth());
  srq.limit = limit;
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::destroy_srq(SharedReceiveQueue& srq) try {
  if (srq.users != 0) {
    return Error{EBUSY, std::to_string(srq.users) + " queue pairs still receive from it"};
  }
  qps_.for_each([&](QueuePair& qp) {
    // A message without its receive can't be finished.
    if (forget_srq(qp.responder, srq)) enter_error(services_, qp, EventKind::qp_fatal);
  });
  --domains_.at(static_cast<std::uint32_t>(srq.pd));
  if (srq.xrc_cq != nullptr) {
    --srq.xrc_cq->users;
    --xrc_domains_.at(static_cast<std::uint32_t>(srq.xrcd));
  }
  std::erase_if(services_.events, [&](const Event& e) { return e.srq == &srq; });
  srqs_.erase(srq.number);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<Qpn> Rnic::new_qpn() {
  if (qps_.size() >= Limits::kMaxQueuePairs) {
    return Error{ENOMEM, "all queue pairs are in use"};
  }
  const std::uint32_t base = slot_ << Qpn::kIndexBits;
  const std::uint32_t mask = (1u << Qpn::kIndexBits) - 1;
  for (;;) {
    const Qpn qpn{base | (entropy_.next() & mask)};
    // 0 and 1 are the management queue pairs', all ones is multicast.
    if (qpn.value() > 1 && qpn.value() != Qpn::kMask && qps_.find(qpn) == nullptr) return qpn;
  }
}

namespace {

/// Which queues a type has.
Status check_queues(const QpInit& init) {
  const bool raw = init.type == QpType::raw_packet;
  const bool sends = init.type != QpType::xrc_receive && !(raw && init.max_send == 0);
  const bool receives = init.type != QpType::xrc_send && init.type != QpType::xrc_receive &&
                        !(raw && init.max_receive == 0 && init.srq == nullptr);
  if (sends && init.send_cq == nullptr) {
    return Error{EINVAL, "a queue pair that sends needs a send completion queue"};
  }
  if (receives && init.receive_cq == nullptr) {
    return Error{EINVAL, "a queue pair that receives needs a receive completion queue"};
  }
  if (init.srq != nullptr && !receives) {
    return Error{EINVAL, "XRC names the shared receive queue in each request"};
  }
  return Ok{};
}

Status check_limits(const QpInit& init) {
  if (init.max_send > Limits::kMaxQueueDepth) {
    return over_limit("max_send_wr", init.max_send, Limits::kMaxQueueDepth);
  }
  if (init.max_receive > Limits::kMaxQueueDepth) {
    return over_limit("max_recv_wr", init.max_receive, Limits::kMaxQueueDepth);
  }
  if (init.max_send_sge > Limits::kMaxSge) {
    return over_limit("max_send_sge", init.max_send_sge, Limits::kMaxSge);
  }
  if (init.max_receive_sge > Limits::kMaxSge) {
    return over_limit("max_recv_sge", init.max_receive_sge, Limits::kMaxSge);
  }
  if (init.max_inline > Limits::kMaxInline) {
    return over_limit("max_inline_data", init.max_inline, Limits::kMaxInline);
  }
  return Ok{};
}

}  // namespace

Status Rnic::check_domains(const QpInit& init) const {
  if (init.type == QpType::xrc_receive) {
    if (xrc_domains_.contains(static_cast<std::uint32_t>(init.xrcd))) return Ok{};
    return Error{EINVAL, "no such XRC domain"};
  }
  if (domains_.contains(static_cast<std::uint32_t>(init.pd))) return Ok{};
  return Error{EINVAL, "no such protection domain"};
}

Result<Qpn> Rnic::prepare_qp(const QpInit& init) {
  if (auto legal = check_domains(init); !legal) return legal.error();
  if (auto legal = check_queues(init); !legal) return legal.error();
  if (auto legal = check_limits(init); !legal) return legal.error();
  auto qpn = new_qpn();
  if (qpn) make_room_for_queues();
  return qpn;
}

void Rnic::add(std::unique_ptr<QueuePair> made) {
  if (services_.observer != nullptr) services_.observer->created(*made);
  const QueuePair& qp = qps_.insert(std::move(made));
  ++users_of_domain(qp);
  if (qp.send_cq != nullptr) ++qp.send_cq->users;
  if (qp.receive_cq != nullptr) ++qp.receive_cq->users;
  if (qp.srq != nullptr) ++qp.srq->users;
}

unsigned& Rnic::users_of_domain(const QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? xrc_domains_.at(static_cast<std::uint32_t>(qp.xrcd))
                                        : domains_.at(static_cast<std::uint32_t>(qp.pd));
}

/// Before another queue pair or shared receive queue is made: what the data path then tells of all
/// of them at once finds room.
void Rnic::make_room_for_queues() {
  const std::size_t pairs = qps_.size() + 1;
  const std::size_t shared = srqs_.size() + 1;
  const std::size_t completion_queues = 2 * pairs + shared;
  const auto reserve = [](auto& v, std::size_t n) {
    if (v.capacity() < n) v.reserve(std::max(2 * v.capacity(), n));
  };
  // Of a queue pair: established, an error, last WQE, drained. Of the others one each.
  reserve(services_.events, 4 * pairs + shared + completion_queues);
  reserve(services_.notifications, completion_queues);
  reserve(services_.moderated, completion_queues);
  timers_.make_room_for(pairs);
}

void Rnic::repeat_last_ack(QueuePair& qp, packet::FrameSink& sink) {
  if (qp.reliable() && takes_requests(qp.state.load()))
    transmit_last_ack_again(services_, qp, sink);
}

Status Rnic::destroy_qp(QueuePair& qp, packet::FrameSink& sink, Counters* last) {
  repeat_last_ack(qp, sink);
  if (services_.observer != nullptr) services_.observer->destroyed(qp);
  ring_doorbells();  // it may hang there
  services_.paces.forget(qp, runnable_);
  if (!runnable_.remove(qp)) stalled_.remove(qp);
  timers_.remove(qp);
  --users_of_domain(qp);
  if (qp.send_cq != nullptr) --qp.send_cq->users;
  if (qp.receive_cq != nullptr) --qp.receive_cq->users;
  if (qp.srq != nullptr) --qp.srq->users;
  for (auto& [group, members] : multicast_) std::erase(members, &qp);
  std::erase_if(multicast_, [](const auto& group) { return group.second.empty(); });
  std::erase_if(services_.events, [&](const Event& e) { return e.qp == &qp; });
  unbind_windows_of(keys_, qp);
  services_.counters += qp.counters;
  if (last != nullptr) *last = qp.counters;
  qps_.erase(qp.qpn);
  return Ok{};
}

}  // namespace verbena::engine
