#include "tests/fuzz/device.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verbena::fuzz {

namespace {

using engine::Access;
using engine::Attr;
using engine::QpState;
using engine::QpType;
using engine::SendKind;
using engine::Sge;

constexpr std::uint8_t kGuard = 0xa5;
constexpr std::size_t kAreaSize = 4096;
constexpr std::size_t kGap = 512;  // guard bytes before, between and behind the areas
constexpr std::uint32_t kDepth = 8;
constexpr std::uint32_t kReceiveSize = 1500;
constexpr std::uint32_t kInline = 64;
constexpr unsigned kAll = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                          Access::kRemoteAtomic | Access::kBindWindow | Access::kFlushGlobal |
                          Access::kFlushPersistent;

[[noreturn]] void broken(const char* promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

void check(bool kept, const char* promise) {
  if (!kept) broken(promise);
}

struct Kind {
  QpType type;
  QpState state;
  bool srq;
  std::uint16_t mtu;
};

constexpr std::array<Kind, Device::kQueuePairs> kKinds{{
    {QpType::rc, QpState::rts, false, 256},
    {QpType::rc, QpState::rtr, false, 1024},
    {QpType::rc, QpState::rts, true, 1024},
    {QpType::uc, QpState::rts, false, 1024},
    {QpType::ud, QpState::rts, false, 1024},
    {QpType::xrc_receive, QpState::rts, false, 1024},
    {QpType::xrc_send, QpState::rts, false, 256},
    {QpType::rc, QpState::init, false, 256},
}};

/// A window of type 2 has no memory of its own: it is the middle half of the open area.
constexpr std::uint64_t kWindowOffset = kAreaSize / 4;
constexpr std::uint64_t kWindowSize = kAreaSize / 2;

}  // namespace

Device::Device(std::uint32_t slot, std::uint32_t peer_slot)
    : arena_(kGap + kAreas * (kAreaSize + kGap), kGuard),
      peer_qpn_{peer_slot << Qpn::kIndexBits | 0x711},
      rnic_{slot, *this, *this} {
  for (auto& cq : cqs_) cq = std::make_unique<engine::CompletionQueue>(256);
  for (auto& cq : xrc_cqs_) cq = std::make_unique<engine::CompletionQueue>(64);
  pd_ = rnic_.alloc_pd().value();
  create_memory();
  srq_ = rnic_.create_srq({.pd = pd_, .depth = kDepth, .max_sge = 2}).value();
  for (std::size_t i = 0; i < xrc_srqs_.size(); ++i) xrc_srqs_[i] = create_xrc_srq(i);
  for (std::size_t i = 0; i < kQueuePairs; ++i) create_queue_pair(i);
  bind_window();
  settle();
}

// ---- set-up

void Device::create_memory() {
  const auto other_pd = rnic_.alloc_pd().value();
  const auto expose = [&](Area area, engine::PdId pd, unsigned access) {
    std::uint8_t* at = arena_.data() + kGap + area * (kAreaSize + kGap);
    at -= reinterpret_cast<std::uintptr_t>(at) % 8;
    if (area == zero_based) at += 4;  // words that the peer calls aligned are not
    const auto address = reinterpret_cast<std::uint64_t>(at);
    areas_[area] = rnic_.register_memory(pd, {address, kAreaSize}, address, access).value();
  };
  expose(open, pd_, kAll);
  expose(zero_based, pd_, kAll | Access::kZeroBased);
  expose(read_only, pd_, Access::kRemoteRead);
  expose(foreign, other_pd, kAll);
  expose(local, pd_, Access::kLocalWrite);
  xrcd_ = rnic_.open_xrcd().value();
  original_ = arena_;
  areas_[window].key = rnic_.alloc_window(pd_, engine::MemoryRegion::Type::window_2).value();
}

engine::SharedReceiveQueue* Device::create_xrc_srq(std::size_t i) {
  return rnic_
      .create_srq(
          {.pd = pd_, .depth = kDepth, .max_sge = 2, .xrc_cq = xrc_cqs_[i].get(), .xrcd = xrcd_})
      .value();
}

void Device::create_queue_pair(std::size_t i) {
  const Kind& kind = kKinds[i];
  const bool xrc = kind.type == QpType::xrc_receive || kind.type == QpType::xrc_send;
  qps_[i] = rnic_
                .create_qp({.pd = pd_,
                            .send_cq = cqs_[0].get(),
                            .receive_cq = cqs_[kind.srq ? 2 : 1].get(),
                            .max_send = kDepth,
                            .max_receive = kind.srq || xrc ? 0 : kDepth,
                            .max_send_sge = 2,
                            .max_receive_sge = 2,
                            .max_inline = kInline,
                            .signal_all = true,
                            .type = kind.type,
                            .srq = kind.srq ? srq_ : nullptr,
                            .xrcd = kind.type == QpType::xrc_receive ? xrcd_ : engine::XrcdId{}})
                .value();
  bring_up(i);
  if (kind.type == QpType::ud) {
    check(rnic_.attach_multicast(*qps_[i], group()).ok(), "UD joins a group");
  }
}

void Device::bring_up(std::size_t i) {
  using A = Attr;
  constexpr unsigned kConnect = A::kPath | A::kPathMtu | A::kDestQpn | A::kRqPsn;
  constexpr unsigned kServe = kConnect | A::kMaxDestRdAtomic | A::kMinRnrTimer;
  constexpr unsigned kAsk =
      A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSqPsn | A::kMaxRdAtomic;
  constexpr unsigned kBirth = A::kPkeyIndex | A::kPort | A::kAccess;
  struct Change {
    QpState to;
    std::array<unsigned, 5> by_type;  // rc, uc, ud, xrc_send, xrc_receive
  };
  static constexpr std::array<Change, 3> kWay{{
      {QpState::init, {kBirth, kBirth, A::kPkeyIndex | A::kPort | A::kQkey, kBirth, kBirth}},
      {QpState::rtr, {kServe, kConnect, 0, kConnect, kServe}},
      {QpState::rts, {kAsk, A::kSqPsn, A::kSqPsn, kAsk, A::kTimeout | A::kSqPsn}},
  }};
  engine::QpAttributes a;
  a.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  a.flow = {.source = address(), .destination = peer(), .source_port = 0xc000};
  a.path_mtu = kKinds[i].mtu;
  a.dest_qpn = peer_qpn_;
  a.rq_psn = Psn{0xff'fff0};
  a.sq_psn = Psn{0xff'fff8};
  a.max_dest_rd_atomic = 4;
  a.max_rd_atomic = 4;
  a.min_rnr_timer = 1;
  a.timeout = 10;
  a.retry_count = 3;
  a.rnr_retry = 3;
  a.qkey = kQkey;
  for (const Change& change : kWay) {
    if (kKinds[i].state < change.to) break;
    a.state = change.to;
    const unsigned mask = A::kState | change.by_type[static_cast<std::size_t>(kKinds[i].type)];
    check(rnic_.modify_qp(*qps_[i], a, mask).ok(), "the way to RTS is open");
  }
}

// ---- the program

void Device::post_send(std::size_t i, SendKind kind, std::uint32_t length, std::size_t remote) {
  engine::QueuePair& qp = *qps_[i % kQueuePairs];
  const engine::MemoryRegion& to = area(remote);
  length = std::min(length, 2048u);
  switch (kind) {
    case SendKind::compare_swap:
    case SendKind::fetch_add:
    case SendKind::atomic_write:
      length = 8;
      break;
    case SendKind::flush:
    case SendKind::local_invalidate:
    case SendKind::bind_window:
      length = 0;
      break;
    default:
      break;
  }
  const engine::MemoryRegion& from = areas_[local];
  const std::array sges{Sge{from.iova, length / 3, from.key},
                        Sge{from.iova + 1500, length - length / 3, from.key}};
  const engine::SendRequest request{
      .wr_id = next_wr_id_,
      .kind = kind,
      .solicited = length % 2 != 0,
      .fence = length % 5 == 0,
      .inlined = !engine::info_of(kind).answered && length <= kInline && next_wr_id_ % 2 == 0,
      .remote_address = to.iova,
      .rkey = to.key,
      .sges = sges,
      .invalidate = areas_[window].key,
      .atomic = {1, 2},
      .flush = {.what = {.global_visibility = true}, .length = length},
      .binding = {.window = areas_[window].key,
                  .new_key = areas_[window].key,
                  .region = areas_[open].key,
                  .address = areas_[open].iova + kWindowOffset,
                  .length = kWindowSize,
                  .access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic},
      .destination = {.flow = qp.attributes.flow, .qpn = peer_qpn_, .qkey = kQkey},
      .xrc_srq = 5};
  if (rnic_.post_send(qp, request) != engine::PostResult::posted) return;
  posted_.emplace(next_wr_id_++, Posted{.queue = Queue::send, .owner = &qp, .cq = cqs_[0].get()});
}

void Device::bind_window() {
  areas_[window].iova = areas_[open].iova + kWindowOffset;
  areas_[window].length = kWindowSize;
  post_send(0, SendKind::bind_window, 0, window);
}

void Device::forget(const void* owner) {
  std::erase_if(posted_, [&](const auto& entry) { return entry.second.owner == owner; });
}

void Device::change_state(std::size_t i, QpState to) {
  engine::QpAttributes a;
  a.state = to;
  a.notify_drained = true;
  const unsigned mask = Attr::kState | (to == QpState::sqd ? Attr::kNotifyDrained : 0);
  if (rnic_.modify_qp(qp(i), a, mask).ok() && to == QpState::reset) {
    // What completed before stays in the queues.
    poll_all();
    forget(&qp(i));
  }
}

void Device::revive(std::size_t i) {
  change_state(i, QpState::reset);
  bring_up(i % kQueuePairs);
}

void Device::renew_xrc_srq(std::size_t i) {
  i %= xrc_srqs_.size();
  poll_all();
  const void* const old = xrc_srqs_[i];
  check(rnic_.destroy_srq(*xrc_srqs_[i]).ok(), "an XRC queue can always be destroyed");
  // What a message has taken from it already may still complete.
  for (auto& [wr_id, posted] : posted_) {
    if (posted.owner == old) posted.owner = nullptr;
  }
  xrc_srqs_[i] = create_xrc_srq(i);
}

void Device::set_srq_limit(std::uint32_t limit) {
  (void)rnic_.set_srq_limit(*srq_, limit % (kDepth + 1));
}

void Device::renew_queue_pair(std::size_t i) {
  i %= kQueuePairs;
  poll_all();
  forget(qps_[i]);
  check(rnic_.destroy_qp(*qps_[i], *this).ok(), "a queue pair can always be destroyed");
  create_queue_pair(i);
}

void Device::renew_area(Area area) {
  const auto changed = rnic_.reregister_memory(areas_[area].key, {}, {}, {});
  if (changed) areas_[area] = *changed;
}

void Device::arm() {
  for (auto& cq : cqs_) cq->arm(next_wr_id_ % 2 == 0);
  for (auto& cq : xrc_cqs_) cq->arm(next_wr_id_ % 2 == 0);
}

template <typename Post>
void Device::post_receive(const Posted& posted, Post post) {
  const engine::MemoryRegion& to = areas_[local];
  const std::array sges{Sge{to.iova, 700, to.key}, Sge{to.iova + 1000, kReceiveSize - 700, to.key}};
  while (post(engine::ReceiveRequest{.wr_id = next_wr_id_, .sges = sges}) ==
         engine::PostResult::posted) {
    posted_.emplace(next_wr_id_++, posted);
  }
}

void Device::post_receives() {
  for (std::size_t i = 0; i < kQueuePairs; ++i) {
    engine::QueuePair& qp = *qps_[i];
    if (qp.rq.depth() == 0 || qp.state.load() == QpState::error) continue;
    post_receive({Queue::receive, &qp, qp.receive_cq, kReceiveSize},
                 [&](const auto& r) { return rnic_.post_receive(qp, r); });
  }
  post_receive({Queue::shared, srq_, cqs_[2].get(), kReceiveSize},
               [&](const auto& r) { return engine::Rnic::post_receive(*srq_, r); });
  for (auto* srq : xrc_srqs_) {
    post_receive({Queue::shared, srq, srq->xrc_cq, kReceiveSize},
                 [&](const auto& r) { return engine::Rnic::post_receive(*srq, r); });
  }
}

void Device::settle() {
  if (!starving_) post_receives();
  for (unsigned turns = 0; rnic_.has_work() || rnic_.next_deadline() <= now_; ++turns) {
    check(turns < 10'000, "work comes to an end");
    (void)rnic_.work(*this, now_);
    poll_all();
  }
  poll_all();
  rnic_.notifications().clear();
  rnic_.events().clear();
}

void Device::flush_all() {
  for (std::size_t i = 0; i < kQueuePairs; ++i) change_state(i, QpState::error);
  settle();
  for (const auto& [wr_id, posted] : posted_) {
    check(posted.queue == Queue::shared, "what is posted to a queue pair completes");
  }
  check_memory();
  check(rnic_.counters().cq_overruns == 0, "no completion queue overran");
}

// ---- what is looked at

void Device::poll_all() {
  for (auto& cq : cqs_) poll(*cq);
  for (auto& cq : xrc_cqs_) poll(*cq);
}

void Device::poll(engine::CompletionQueue& cq) {
  std::array<engine::Completion, 16> some;
  while (const std::size_t n = cq.poll(some)) {
    for (const engine::Completion& c : std::span{some}.first(n)) {
      const auto it = posted_.find(c.wr_id);
      check(it != posted_.end(), "completions are of what was posted, once");
      const Posted posted = it->second;
      posted_.erase(it);
      check(posted.cq == &cq, "completions come where the queue said");
      const bool receive = c.kind == engine::CompletionKind::receive ||
                           c.kind == engine::CompletionKind::receive_write_immediate;
      check(receive == (posted.queue != Queue::send), "a completion is of its request's kind");
      if (c.kind == engine::CompletionKind::receive) {
        check(c.byte_count <= posted.length, "no more is received than there is room for");
      }
    }
  }
}

bool Device::inside(const engine::Segment& s, Area area) const {
  const engine::MemoryRegion& r = areas_[area];
  return s.address >= r.address && s.length <= r.length &&
         s.address - r.address <= r.length - s.length;
}

bool Device::is_unmapped() {
  if (unmapped_ == 0) return false;
  --unmapped_;
  return true;
}

bool Device::gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) {
  if (is_unmapped()) return false;
  for (const engine::Segment& s : from) {
    check(inside(s, open) || inside(s, zero_based) || inside(s, read_only) || inside(s, local),
          "only what is registered and permitted is read");
    check(s.length <= into.size(), "a gather list is as long as its frame");
    std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
    into = into.subspan(s.length);
  }
  return true;
}

bool Device::scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) {
  if (is_unmapped()) return false;
  for (const engine::Segment& s : into) {
    check(inside(s, open) || inside(s, zero_based) || inside(s, local),
          "only what is registered and permitted is written");
    check(s.length <= from.size(), "a scatter list is as long as its packet");
    std::memcpy(reinterpret_cast<void*>(s.address), from.data(), s.length);
    from = from.subspan(s.length);
  }
  return true;
}

std::uint64_t Device::word_at(std::uint64_t address) const {
  check(inside({address, 8}, open) || inside({address, 8}, zero_based),
        "only what is registered and permitted is changed");
  check(address % 8 == 0, "atomics are on aligned words");
  std::uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), sizeof word);
  return word;
}

std::optional<std::uint64_t> Device::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                  std::uint64_t swap) {
  if (is_unmapped()) return std::nullopt;
  const std::uint64_t original = word_at(address);
  if (original == compare) (void)store(address, swap);
  return original;
}

std::optional<std::uint64_t> Device::fetch_add(std::uint64_t address, std::uint64_t add) {
  if (is_unmapped()) return std::nullopt;
  const std::uint64_t original = word_at(address);
  (void)store(address, original + add);
  return original;
}

bool Device::store(std::uint64_t address, std::uint64_t value) {
  if (is_unmapped()) return false;
  (void)word_at(address);
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
  return true;
}

std::span<std::uint8_t> Device::reserve(const packet::Flow&, Qpn, std::size_t size) {
  if (blocked_ > 0) {
    --blocked_;
    return {};
  }
  frame_.assign(size, kGuard);
  frame_.shrink_to_fit();  // so that a sanitizer sees its end
  return frame_;
}

void Device::commit() { check_frame(); }

void Device::check_frame() const {
  std::vector<std::uint8_t> bytes = frame_;
  bytes.resize(bytes.size() + packet::kIcrcSize);
  check(std::holds_alternative<packet::Packet>(packet::parse(bytes)),
        "what is sent can be received");
}

void Device::check_memory() const {
  // Before, between and behind the writable areas, in the order in which they stand.
  std::size_t from = 0;
  for (const Area area : {open, zero_based, local}) {
    const auto to = static_cast<std::size_t>(areas_[area].address -
                                             reinterpret_cast<std::uint64_t>(arena_.data()));
    check(std::memcmp(&arena_[from], &original_[from], to - from) == 0,
          "nothing changes outside of what was registered for it");
    from = to + kAreaSize;
  }
  check(std::memcmp(&arena_[from], &original_[from], arena_.size() - from) == 0,
        "nothing changes outside of what was registered for it");
}

}  // namespace verbena::fuzz
