// What the host makes, changes and destroys on the program's behalf.

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <new>
#include <string>
#include <utility>

#include "engine/rnic.h"
#include "engine/window_binding.h"

namespace verbena::engine {

namespace {

std::string qp_text(const QueuePair& qp) {
  std::array<char, 8> hex{};
  const auto end = std::to_chars(hex.begin(), hex.end(), qp.qpn.value(), 16).ptr;
  return "qp 0x" + std::string{hex.data(), end};
}

/// Short enough to need no memory itself.
Error no_memory() { return {ENOMEM, "out of memory"}; }

Error over_limit(const char* what, std::uint64_t asked, std::uint64_t limit) {
  return {EINVAL, std::string{what} + " " + std::to_string(asked) + " exceeds the device's " +
                      std::to_string(limit)};
}

}  // namespace

// ---- domains, memory, shared receive queues

Result<PdId> Rnic::alloc_pd() try {
  if (domains_.size() >= Limits::kMaxDomains) {
    return Error{ENOMEM, "all protection domains are in use"};
  }
  while (next_pd_ == 0 || domains_.contains(next_pd_)) ++next_pd_;
  domains_.emplace(next_pd_, 0);
  return PdId{next_pd_++};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::dealloc_pd(PdId pd) try {
  const auto it = domains_.find(static_cast<std::uint32_t>(pd));
  if (it == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (it->second != 0) {
    return Error{EBUSY, std::to_string(it->second) +
                            " regions or queue pairs are still in the protection domain"};
  }
  domains_.erase(it);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Key Rnic::new_key() {
  Key key{entropy_.next()};
  while (!keys_.is_free(key)) key = Key{entropy_.next()};
  return key;
}

namespace {

Status check_region(Segment memory, std::uint64_t iova, unsigned access) {
  // IBA 10.6.3.1: remote write and atomic need local write.
  const unsigned remote = Access::kRemoteWrite | Access::kRemoteAtomic;
  if ((access & remote) != 0 && (access & Access::kLocalWrite) == 0) {
    return Error{EINVAL, "remote write or atomic access needs local write access, too"};
  }
  if (iova + memory.length < iova || memory.address + memory.length < memory.address) {
    return Error{EINVAL, "the range wraps around the end of the address space"};
  }
  return Ok{};
}

}  // namespace

Result<MemoryRegion> Rnic::register_memory(PdId pd, Segment memory, std::uint64_t iova,
                                           unsigned access) try {
  const auto domain = domains_.find(static_cast<std::uint32_t>(pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (keys_.size() >= Limits::kMaxRegions) return Error{ENOMEM, "all memory regions are in use"};
  if ((access & Access::kZeroBased) != 0) iova = 0;
  if (auto legal = check_region(memory, iova, access); !legal) return legal.error();
  const MemoryRegion region{.key = new_key(),
                            .pd = pd,
                            .access = access,
                            .iova = iova,
                            .address = memory.address,
                            .length = memory.length};
  keys_.insert(region);
  ++domain->second;
  return region;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MemoryRegion> Rnic::register_null(PdId pd) {
  auto region = register_memory(pd, {0, Segment::kNull}, 0, Access::kLocalWrite);
  if (!region) return region;
  region->address = keys_.find(region->key)->address = Segment::kNull;
  return region;
}

const MemoryRegion* Rnic::find_region(Key key) const {
  const MemoryRegion* found = keys_.find(key);
  return found != nullptr && found->type == MemoryRegion::Type::region ? found : nullptr;
}

Status Rnic::deregister_memory(Key key) try {
  const MemoryRegion* region = find_region(key);
  if (region == nullptr) return Error{EINVAL, "no such memory region"};
  if (region->windows != 0) {
    return Error{EBUSY, std::to_string(region->windows) + " memory windows are bound to it"};
  }
  --domains_.at(static_cast<std::uint32_t>(region->pd));
  keys_.erase(key);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<MemoryRegion> Rnic::reregister_memory(Key key, std::optional<PdId> pd,
                                             std::optional<Segment> memory,
                                             std::optional<unsigned> access) try {
  MemoryRegion* found = keys_.find(key);
  if (find_region(key) == nullptr) return Error{EINVAL, "no such memory region"};
  if (found->windows != 0) {
    return Error{EBUSY, std::to_string(found->windows) + " memory windows are bound to it"};
  }
  MemoryRegion changed = *found;
  if (pd) changed.pd = *pd;
  if (access) changed.access = *access;
  if (memory) {
    changed.address = changed.iova = memory->address;
    changed.length = memory->length;
  }
  if ((changed.access & Access::kZeroBased) != 0) changed.iova = 0;
  const auto domain = domains_.find(static_cast<std::uint32_t>(changed.pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (auto legal = check_region({changed.address, changed.length}, changed.iova, changed.access);
      !legal) {
    return legal.error();
  }
  --domains_.at(static_cast<std::uint32_t>(found->pd));
  ++domain->second;
  *found = changed;
  return changed;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Result<Key> Rnic::alloc_window(PdId pd, MemoryRegion::Type type) try {
  const auto domain = domains_.find(static_cast<std::uint32_t>(pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (type == MemoryRegion::Type::region) return Error{EINVAL, "not a type of memory window"};
  if (keys_.size() >= Limits::kMaxRegions) return Error{ENOMEM, "all memory windows are in use"};
  const Key key = new_key();
  keys_.insert({.key = key, .pd = pd, .type = type, .bound = false});
  ++domain->second;
  return key;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::dealloc_window(Key key) try {
  MemoryRegion* window = keys_.find_window(key);
  if (window == nullptr || window->type == MemoryRegion::Type::region) {
    return Error{EINVAL, "no such memory window"};
  }
  unbind(keys_, *window);
  --domains_.at(static_cast<std::uint32_t>(window->pd));
  keys_.erase(window->key);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

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

Result<SharedReceiveQueue*> Rnic::create_srq(const SrqInit& init) try {
  const auto domain = domains_.find(static_cast<std::uint32_t>(init.pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
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
  SharedReceiveQueue* const srq =
      srqs_.emplace(number, std::make_unique<SharedReceiveQueue>(number, init)).first->second.get();
  ++domain->second;
  if (init.xrc_cq != nullptr) {
    ++init.xrc_cq->users;
    ++xrc_domains_.at(static_cast<std::uint32_t>(init.xrcd));
  }
  return srq;
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::set_srq_limit(SharedReceiveQueue& srq, std::uint32_t limit) try {
  if (limit > srq.queue.depth()) return over_limit("srq_limit", limit, srq.queue.depth());
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
    if (qp.responder.xrc_srq != &srq) return;
    qp.responder.xrc_srq = nullptr;
    // A receive that was being filled goes with its queue, and the message can't.
    if (std::exchange(qp.responder.receive.taken, false)) {
      enter_error(services_, qp, EventKind::qp_fatal);
    }
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

}  // namespace

Status Rnic::check_domains(const QpInit& init) const {
  if (init.type == QpType::xrc_receive) {
    if (xrc_domains_.contains(static_cast<std::uint32_t>(init.xrcd))) return Ok{};
    return Error{EINVAL, "no such XRC domain"};
  }
  if (domains_.contains(static_cast<std::uint32_t>(init.pd))) return Ok{};
  return Error{EINVAL, "no such protection domain"};
}

Result<QueuePair*> Rnic::create_qp(const QpInit& init) try {
  if (auto legal = check_domains(init); !legal) return legal.error();
  if (auto legal = check_queues(init); !legal) return legal.error();
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
  auto qpn = new_qpn();
  if (!qpn) return qpn.error();
  make_room_for_queues();

  QueuePair& qp = qps_.insert(std::make_unique<QueuePair>(*qpn, init));
  ++users_of_domain(qp);
  if (init.send_cq != nullptr) ++init.send_cq->users;
  if (init.receive_cq != nullptr) ++init.receive_cq->users;
  if (init.srq != nullptr) ++init.srq->users;
  return &qp;
} catch (const std::bad_alloc&) {
  return no_memory();
}

unsigned& Rnic::users_of_domain(const QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? xrc_domains_.at(static_cast<std::uint32_t>(qp.xrcd))
                                        : domains_.at(static_cast<std::uint32_t>(qp.pd));
}

Status Rnic::modify_qp(QueuePair& qp, const QpAttributes& to, unsigned mask) try {
  const QpState from = qp.state.load();
  if (auto legal = check_transition(qp.type, from, to, mask); !legal) {
    return Error{legal.error().code, qp_text(qp) + ": " + legal.error().message};
  }
  if ((mask & Attr::kMaxRdAtomic) != 0 && to.max_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_rd_atomic", to.max_rd_atomic, Limits::kMaxRdAtomic);
  }
  if ((mask & Attr::kMaxDestRdAtomic) != 0 && to.max_dest_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_dest_rd_atomic", to.max_dest_rd_atomic, Limits::kMaxRdAtomic);
  }
  if ((mask & Attr::kState) != 0 && to.state == QpState::reset) {
    reset(qp);
    return Ok{};
  }
  apply(qp.attributes, to, mask);
  if ((mask & Attr::kState) == 0) return Ok{};

  switch (to.state) {
    case QpState::error:
      qp.responder.responses.clear();
      qp.responder.answer.reset();
      enter_error(services_, qp);
      return Ok{};
    case QpState::rtr:
      if (from != QpState::rtr) qp.responder.expected = qp.attributes.rq_psn;
      break;
    case QpState::rts:
      if (from != QpState::rtr) break;  // back from SQD or SQE
      qp.requester.psn = qp.requester.end = qp.completer.unacked = qp.attributes.sq_psn;
      qp.completer.window = Window{qp.attributes.path_mtu};
      qp.completer.early_patience = qp.completer.round_trip.patience();
      qp.completer.retries_left = qp.attributes.retry_count;
      qp.completer.rnr_retries_left = qp.attributes.rnr_retry;
      break;
    default:
      break;
  }
  change_state(services_, qp, to.state);
  schedule(qp);
  set_timer(qp);
  finish_draining(qp);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
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

void Rnic::reset(QueuePair& qp) {
  // What needs memory, first.
  Requester requester{};
  Completer completer{};
  Responder responder{};
  change_state(services_, qp, QpState::reset);
  services_.paces.forget(qp, runnable_);
  qp.sq.clear();
  qp.rq.clear();
  qp.attributes = {};
  requester.wqe = qp.sq.tail();
  qp.requester = std::move(requester);
  qp.completer = completer;
  qp.responder = std::move(responder);
}

void Rnic::say_farewell(QueuePair& qp, packet::FrameSink& sink) {
  if (qp.reliable() && takes_requests(qp.state.load())) transmit_farewell(services_, qp, sink);
}

Status Rnic::destroy_qp(QueuePair& qp, packet::FrameSink& sink, Counters* last) {
  say_farewell(qp, sink);
  ring_doorbells();  // it may hang there
  services_.paces.forget(qp, runnable_);
  runnable_.remove(qp);
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

// ---- multicast

Status Rnic::attach_multicast(QueuePair& qp, const IpAddress& group) try {
  if (qp.type != QpType::ud) return Error{EINVAL, "only UD queue pairs join multicast groups"};
  const auto it = multicast_.find(group);
  if (it == multicast_.end()) {
    if (multicast_.size() >= Limits::kMaxMulticastGroups) {
      return Error{ENOMEM, "all multicast groups are in use"};
    }
    multicast_.emplace(group, std::vector<QueuePair*>{&qp});
    return Ok{};
  }
  auto& members = it->second;
  if (std::find(members.begin(), members.end(), &qp) != members.end()) return Ok{};
  if (members.size() >= Limits::kMaxMulticastMembers) {
    return Error{ENOMEM, "the multicast group is full"};
  }
  members.push_back(&qp);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

Status Rnic::detach_multicast(QueuePair& qp, const IpAddress& group) try {
  const auto it = multicast_.find(group);
  if (it == multicast_.end() || std::erase(it->second, &qp) == 0) {
    return Error{EINVAL, "not a member of the multicast group"};
  }
  if (it->second.empty()) multicast_.erase(it);
  return Ok{};
} catch (const std::bad_alloc&) {
  return no_memory();
}

}  // namespace verbena::engine
