#include "engine/rnic.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <string>

namespace verbena::engine {

namespace {

/// Packets that one queue pair may send before the next has its turn: one full batch.
constexpr unsigned kTurn = 64;
/// Packets of one work(): the caller wants to look at the wire in between.
constexpr unsigned kTurnsOfWork = 8;

std::string qp_text(const QueuePair& qp) {
  std::array<char, 8> hex{};
  const auto end = std::to_chars(hex.begin(), hex.end(), qp.qpn.value(), 16).ptr;
  return "qp 0x" + std::string{hex.data(), end};
}

Error over_limit(const char* what, std::uint64_t asked, std::uint64_t limit) {
  return {EINVAL, std::string{what} + " " + std::to_string(asked) + " exceeds the device's " +
                      std::to_string(limit)};
}

}  // namespace

Rnic::Rnic(std::uint32_t slot, Dma& dma, Entropy& entropy)
    : slot_{slot},
      services_{.keys = keys_, .dma = dma, .counters = {}, .notifications = {}, .segments = {}},
      entropy_{entropy} {}

Rnic::~Rnic() = default;

// ---- set-up

Result<PdId> Rnic::alloc_pd() {
  if (domains_.size() >= Limits::kMaxDomains) {
    return Error{ENOMEM, "all protection domains are in use"};
  }
  while (next_pd_ == 0 || domains_.contains(next_pd_)) ++next_pd_;
  domains_.emplace(next_pd_, 0);
  return PdId{next_pd_++};
}

Status Rnic::dealloc_pd(PdId pd) {
  const auto it = domains_.find(static_cast<std::uint32_t>(pd));
  if (it == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (it->second != 0) {
    return Error{EBUSY, std::to_string(it->second) +
                            " regions or queue pairs are still in the protection domain"};
  }
  domains_.erase(it);
  return Ok{};
}

Result<MemoryRegion> Rnic::register_memory(PdId pd, Segment memory, std::uint64_t iova,
                                           unsigned access) {
  const auto domain = domains_.find(static_cast<std::uint32_t>(pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (keys_.size() >= Limits::kMaxRegions) return Error{ENOMEM, "all memory regions are in use"};
  // IBA 10.6.3.1: remote write and atomic need local write.
  const unsigned remote = Access::kRemoteWrite | Access::kRemoteAtomic;
  if ((access & remote) != 0 && (access & Access::kLocalWrite) == 0) {
    return Error{EINVAL, "remote write or atomic access needs local write access, too"};
  }
  if (iova + memory.length < iova || memory.address + memory.length < memory.address) {
    return Error{EINVAL, "the range wraps around the end of the address space"};
  }

  Key key{entropy_.next()};
  while (key == Key{} || keys_.find(key) != nullptr) key = Key{entropy_.next()};
  const MemoryRegion region{.key = key,
                            .pd = pd,
                            .access = access,
                            .iova = iova,
                            .address = memory.address,
                            .length = memory.length};
  keys_.insert(region);
  ++domain->second;
  return region;
}

Status Rnic::deregister_memory(Key key) {
  const MemoryRegion* region = keys_.find(key);
  if (region == nullptr) return Error{EINVAL, "no such memory region"};
  --domains_.at(static_cast<std::uint32_t>(region->pd));
  keys_.erase(key);
  return Ok{};
}

Result<Qpn> Rnic::new_qpn() {
  if (qps_.size() >= Limits::kMaxQueuePairs / 2) {
    return Error{ENOMEM, "all queue pairs are in use"};
  }
  const std::uint32_t base = slot_ << Qpn::kIndexBits;
  const std::uint32_t mask = (1u << Qpn::kIndexBits) - 1;
  for (;;) {
    const Qpn qpn{base | (entropy_.next() & mask)};
    // 0 and 1 are the management queue pairs', all ones is multicast.
    if (qpn.value() > 1 && qpn.value() != Qpn::kMask && !qps_.contains(qpn.value())) return qpn;
  }
}

Result<QueuePair*> Rnic::create_qp(const QpInit& init) {
  const auto domain = domains_.find(static_cast<std::uint32_t>(init.pd));
  if (domain == domains_.end()) return Error{EINVAL, "no such protection domain"};
  if (init.send_cq == nullptr || init.receive_cq == nullptr) {
    return Error{EINVAL, "a queue pair needs a send and a receive completion queue"};
  }
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

  auto qp = std::make_unique<QueuePair>(*qpn, init);
  ++domain->second;
  ++init.send_cq->users;
  ++init.receive_cq->users;
  return qps_.emplace(qpn->value(), std::move(qp)).first->second.get();
}

Status Rnic::modify_qp(QueuePair& qp, const QpAttributes& to, unsigned mask) {
  const QpState from = qp.state.load();
  if (auto legal = check_transition(from, to, mask); !legal) {
    return Error{legal.error().code, qp_text(qp) + ": " + legal.error().message};
  }
  if ((mask & Attr::kMaxRdAtomic) != 0 && to.max_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_rd_atomic", to.max_rd_atomic, Limits::kMaxRdAtomic);
  }
  if ((mask & Attr::kMaxDestRdAtomic) != 0 && to.max_dest_rd_atomic > Limits::kMaxRdAtomic) {
    return over_limit("max_dest_rd_atomic", to.max_dest_rd_atomic, Limits::kMaxRdAtomic);
  }
  apply(qp.attributes, to, mask);
  if ((mask & Attr::kState) == 0) return Ok{};

  switch (to.state) {
    case QpState::reset:
      reset(qp);
      return Ok{};
    case QpState::error:
      qp.responder.reads.clear();
      qp.responder.answer.reset();
      enter_error(services_, qp);
      return Ok{};
    case QpState::rtr:
      if (from != QpState::rtr) qp.responder.expected = qp.attributes.rq_psn;
      break;
    case QpState::rts:
      if (from == QpState::rts) break;
      qp.requester.psn = qp.requester.end = qp.completer.unacked = qp.attributes.sq_psn;
      qp.completer.window = Window{qp.attributes.path_mtu};
      qp.completer.early_patience = qp.completer.round_trip.patience();
      qp.completer.retries_left = qp.attributes.retry_count;
      qp.completer.rnr_retries_left = qp.attributes.rnr_retry;
      break;
    default:
      break;
  }
  qp.state.store(to.state);
  schedule(qp);
  set_timer(qp);
  return Ok{};
}

void Rnic::reset(QueuePair& qp) {
  qp.state.store(QpState::reset);
  qp.sq.clear();
  qp.rq.clear();
  qp.attributes = {};
  qp.requester = {};
  qp.requester.wqe = qp.sq.tail();
  qp.completer = {};
  qp.responder = {};
}

Status Rnic::destroy_qp(QueuePair& qp) {
  ring_doorbells();  // it may hang there
  std::erase(runnable_, &qp);
  --domains_.at(static_cast<std::uint32_t>(qp.pd));
  --qp.send_cq->users;
  --qp.receive_cq->users;
  qps_.erase(qp.qpn.value());
  return Ok{};
}

// ---- the program's data path

PostResult Rnic::post_send(QueuePair& qp, const SendRequest& request) {
  switch (qp.state.load(std::memory_order_relaxed)) {
    case QpState::reset:
    case QpState::init:
    case QpState::rtr:
      return PostResult::bad_state;
    default:
      break;
  }
  const PostResult result = qp.sq.post(request, qp.signal_all);
  if (result == PostResult::posted) doorbells_.ring(qp);
  return result;
}

PostResult Rnic::post_receive(QueuePair& qp, const ReceiveRequest& request) {
  if (qp.state.load(std::memory_order_relaxed) == QpState::reset) return PostResult::bad_state;
  const PostResult result = qp.rq.post(request);
  // The responder finds it when it needs it; only in ERR somebody has to flush it.
  if (result == PostResult::posted && qp.state.load() == QpState::error) doorbells_.ring(qp);
  return result;
}

// ---- the wire's data path

QueuePair* Rnic::find(Qpn qpn) {
  const auto it = qps_.find(qpn.value());
  return it == qps_.end() ? nullptr : it->second.get();
}

void Rnic::receive(const packet::Datagram& datagram, Instant now) {
  Counters& counters = services_.counters;
  const auto parsed = packet::parse(datagram.bytes);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  if (p == nullptr) {
    ++counters.drop_malformed;
    return;
  }
  QueuePair* qp = find(p->bth.destination);
  if (qp == nullptr) {
    ++counters.drop_no_qp;
    return;
  }
  // C9-7 ff.: service, partition, state and source, before anything else looks at it.
  if (p->info().service != packet::Service::rc) {
    ++counters.drop_service;
    return;
  }
  if ((p->bth.pkey & 0x7fff) != (packet::kDefaultPkey & 0x7fff)) {
    ++counters.drop_pkey;
    return;
  }
  const QpState state = qp->state.load(std::memory_order_relaxed);
  const bool request = p->info().is_request();
  const bool open = state == QpState::rts || state == QpState::sqd ||
                    (request && (state == QpState::rtr || state == QpState::sqe));
  if (!open) {
    ++counters.drop_state;
    return;
  }
  if (datagram.source != qp->attributes.flow.destination ||
      datagram.destination != qp->attributes.flow.source) {
    ++counters.drop_source;
    return;
  }
  ++counters.rcvd_pkts;
  request ? handle_request(services_, *qp, *p) : handle_response(services_, *qp, *p, now);
  schedule(*qp);
  set_timer(*qp);
}

void Rnic::ring_doorbells() {
  for (QueuePair* qp = doorbells_.take_all(); qp != nullptr;) {
    QueuePair* next = qp->doorbell.next;
    // From here on a new post rings again, so look at the queue only after this.
    qp->doorbell.rung.store(false, std::memory_order_seq_cst);
    if (qp->state.load() == QpState::error) {
      flush(services_, *qp);
    } else {
      schedule(*qp);
    }
    qp = next;
  }
}

void Rnic::schedule(QueuePair& qp) {
  if (qp.runnable) return;
  qp.runnable = true;
  runnable_.push_back(&qp);
}

void Rnic::set_timer(QueuePair& qp) {
  const Instant when = engine::next_deadline(qp);
  if (when >= qp.timer_set) return;  // the entry that is there comes first and looks again
  qp.timer_set = when;
  timers_.push({when, qp.qpn});
}

void Rnic::expire_timers(Instant now) {
  while (!timers_.empty() && timers_.top().when <= now) {
    const Timer timer = timers_.top();
    timers_.pop();
    QueuePair* qp = find(timer.qpn);
    if (qp == nullptr || qp->timer_set != timer.when) continue;
    qp->timer_set = kNever;
    if (engine::next_deadline(*qp) <= now) {
      expire(services_, *qp, now);
      schedule(*qp);
    }
    set_timer(*qp);
  }
}

Instant Rnic::next_deadline() const { return timers_.empty() ? kNever : timers_.top().when; }

bool Rnic::work(packet::FrameSink& sink, Instant now) {
  ring_doorbells();
  expire_timers(now);
  for (unsigned turn = 0; turn < kTurnsOfWork && !runnable_.empty(); ++turn) {
    QueuePair& qp = *runnable_.front();
    Sent sent = transmit_responses(services_, qp, sink, kTurn);
    if (sent == Sent::all) sent = transmit_requests(services_, qp, sink, kTurn, now);
    set_timer(qp);
    if (sent == Sent::sink_full) return false;
    runnable_.pop_front();
    qp.runnable = false;
    if (sent == Sent::more) schedule(qp);
  }
  return true;
}

}  // namespace verbena::engine
