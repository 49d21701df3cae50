#include "tests/sim/world.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/support/datagram.h"

namespace verbena::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kWireOverhead = 66;  // Ethernet with preamble and gap, IP, UDP
constexpr std::uint8_t kEcnMask = 3;
/// As the shard's: who finds no room tries again after this time, woken or not.
constexpr Duration kBlockedPause = 1ms;

}  // namespace

std::uint32_t ReceiveBuffer::truesize(std::size_t datagram) {
  // The sk_buff, and a slab for headers, data and skb_shared_info; short ones have a slab of
  // their own size.
  const std::size_t data = datagram + 400;
  return static_cast<std::uint32_t>(256 + (data <= 576 ? 576 : std::bit_ceil(data)));
}

Node::Node(World& world, std::uint32_t slot, IpAddress address)
    : world_{world}, slot_{slot}, address_{address}, rnic_{slot, *this, *this} {}

engine::MemoryRegion Node::expose(engine::PdId pd, std::span<std::uint8_t> bytes, unsigned access) {
  const auto range = range_of(bytes);
  return rnic_.register_memory(pd, range, range.address, access).value();
}

bool Node::mapped(const engine::Segment& s) const {
  return std::none_of(unmapped_.begin(), unmapped_.end(), [&](const engine::Segment& gone) {
    return s.address < gone.address + gone.length && gone.address < s.address + s.length;
  });
}

bool Node::gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) {
  for (const auto& s : from) {
    if (!mapped(s)) return false;
    std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
    into = into.subspan(s.length);
  }
  return true;
}

bool Node::scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) {
  for (const auto& s : into) {
    if (!mapped(s)) return false;
    std::memcpy(reinterpret_cast<void*>(s.address), from.data(), s.length);
    from = from.subspan(s.length);
  }
  return true;
}

std::optional<std::uint64_t> Node::compare_swap(std::uint64_t address, std::uint64_t compare,
                                                std::uint64_t swap) {
  if (!mapped({address, 8})) return std::nullopt;
  auto& word = *reinterpret_cast<std::uint64_t*>(address);
  const std::uint64_t original = word;
  if (original == compare) word = swap;
  return original;
}

std::optional<std::uint64_t> Node::fetch_add(std::uint64_t address, std::uint64_t add) {
  if (!mapped({address, 8})) return std::nullopt;
  return std::exchange(*reinterpret_cast<std::uint64_t*>(address),
                       *reinterpret_cast<std::uint64_t*>(address) + add);
}

bool Node::store(std::uint64_t address, std::uint64_t value) {
  if (!mapped({address, 8})) return false;
  *reinterpret_cast<std::uint64_t*>(address) = value;
  return true;
}

std::uint32_t Node::next() { return static_cast<std::uint32_t>(world_.random()()); }

std::span<std::uint8_t> Node::reserve(const packet::Flow& flow, Qpn to, std::size_t size) {
  return reserve_many(flow, to, size, 1).bytes;
}

packet::Course Node::choose_way(const packet::Flow& flow, Qpn) {
  Node* const to = world_.rings_.capacity != 0 ? world_.node_at(flow.destination) : nullptr;
  if (to == nullptr) return {};
  if (to->dead) return {.detour = packet::Detour::other_host};
  if (!world_.same_host(*this, *to)) return {.detour = packet::Detour::peer_declines};
  return {packet::Way::host, packet::Detour::none};
}

packet::Passage Node::passage(const packet::Flow& flow, Qpn) const {
  for (const auto& [ends, ring] : world_.ring_between_) {
    if (ends.first == this && ends.second->address() == flow.destination) return ring.passage();
  }
  return {};
}

bool Node::may_work(Instant now) const {
  return !stopped && ((rnic_.has_work() && (!blocked_ || now >= try_again_at_)) ||
                      rnic_.has_doorbells() || rnic_.next_deadline() <= now);
}

/// What was committed is found by its readers.
void Node::publish() {
  for (auto& [ends, ring] : world_.ring_between_) {
    if (ends.first == this && !dead && ring.publish()) {
      world_.ring_bell(*ends.second);
    }
  }
}

packet::FrameRooms Node::reserve_many(const packet::Flow& flow, Qpn, std::size_t size,
                                      std::size_t count) {
  Node* const to = flow.way == packet::Way::host ? world_.node_at(flow.destination) : nullptr;
  ring_ = to != nullptr && !to->dead ? &world_.ring(*this, *to) : nullptr;
  if (ring_ != nullptr) {
    const auto rooms = ring_->reserve(flow, size, count);
    if (rooms.count == 0) {
      ++world_.held_back_;
      world_.grown_rings_ += ring_->grow() ? 1 : 0;
    }
    return rooms;
  }
  const std::size_t stride = size + packet::kIcrcSize;
  flow_ = flow;
  frames_.resize(count * stride);
  rooms_ = {{frames_.data(), count * stride - packet::kIcrcSize}, size, stride, count};
  next_room_ = 0;
  return rooms_;
}

void Node::commit() {
  if (ring_ != nullptr) return ring_->commit();
  if (flow_.way == packet::Way::host) return;  // nobody reads that ring any more
  const auto frame = rooms_[next_room_++];
  if (!dead) world_.transmit(flow_, frame);
}

Node& World::add_node() {
  const auto n = static_cast<std::uint8_t>(nodes_.size() + 1);
  nodes_.push_back(std::make_unique<Node>(*this, n, IpAddress::v4({10, 0, 0, n})));
  return *nodes_.back();
}

void World::transmit(const packet::Flow& flow, std::span<std::uint8_t> frame) {
  if ((filter && !filter(flow, frame)) || chance(link_.loss_ppm)) {
    ++lost_;
    return;
  }
  const bool corrupt = chance(link_.corrupt_ppm);
  if (corrupt) ++corrupted_;
  if (corrupt && !link_.deliver_corrupted) {
    ++lost_;
    return;
  }
  const unsigned copies = chance(link_.duplicate_ppm) ? 2 : 1;
  for (unsigned i = 0; i < copies; ++i) {
    Arrival a{now_, order_++, flow, {}};
    a.bytes.reserve(frame.size() + packet::kIcrcSize);
    a.bytes.assign(frame.begin(), frame.end());
    a.bytes.resize(frame.size() + packet::kIcrcSize);  // the wire has checked it
    if (corrupt) flip_bits(a.bytes);
    const auto through = queue(a);
    if (!through) {
      ++queue_drops_;
      ++lost_;
      continue;
    }
    a.when = *through + link_.delay;
    if (link_.jitter > 0ns)
      a.when += Duration{random_() % static_cast<std::uint64_t>(link_.jitter.count())};
    if (chance(link_.reorder_ppm)) a.when += link_.reorder_by;
    arrivals_.push_back(std::move(a));
    std::push_heap(arrivals_.begin(), arrivals_.end(), std::greater<>{});
  }
}

Node* World::node_at(const IpAddress& address) {
  const auto it = std::find_if(nodes_.begin(), nodes_.end(),
                               [&](const auto& node) { return node->address() == address; });
  return it == nodes_.end() ? nullptr : it->get();
}

Duration World::spread(Duration d) {
  return d / 2 + (d > 0ns ? Duration{random_() % static_cast<std::uint64_t>(d.count())} : 0ns);
}

void World::flip_bits(std::vector<std::uint8_t>& bytes) {
  for (std::uint32_t n = 1 + pick(3); n > 0; --n) {
    const std::uint32_t bit = pick(static_cast<std::uint32_t>(bytes.size() * 8));
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1u << (bit % 8));
  }
}

std::optional<Instant> World::queue(Arrival& a) {
  Node* const to = node_at(a.flow.destination);
  if (link_.bytes_per_second == 0 || to == nullptr) return now_;
  const auto rate = static_cast<double>(link_.bytes_per_second);
  const std::size_t size = a.bytes.size() + kWireOverhead;
  const Instant start = std::max(now_, to->port_free_);
  const auto queued =
      static_cast<std::uint64_t>(std::chrono::duration<double>{start - now_}.count() * rate);
  if (queued > 0 && queued + size > link_.queue_bytes) return std::nullopt;
  if (queued > link_.mark_above_bytes && (a.flow.traffic_class & kEcnMask) != 0) {
    a.flow.traffic_class |= kEcnMask;  // "congestion experienced"
    ++marked_;
  }
  to->port_free_ = start + std::chrono::duration_cast<Duration>(
                               std::chrono::duration<double>{static_cast<double>(size) / rate});
  return to->port_free_;
}

void World::arrive(Arrival a) {
  Node* const node = node_at(a.flow.destination);
  if (node == nullptr || node->dead) return;
  const std::uint32_t cost = ReceiveBuffer::truesize(a.bytes.size());
  if (node->buffer.bytes != 0 && node->charged_ + cost > node->buffer.bytes) {
    ++node->overflows_;
    return;
  }
  // The process finds what came while it looked away when it looks again.
  if (node->socket_.empty() && node->buffer.nap > 0ns && node->attentive_ < now_)
    node->attentive_ =
        now_ + Duration{random_() % static_cast<std::uint64_t>(node->buffer.nap.count())};
  node->charged_ += cost;
  node->socket_.push_back({a.flow, std::move(a.bytes)});
}

void World::drain(Node& node) {
  std::deque<Node::Waiting> train;  // their bytes stay until all are taken
  while (!node.socket_.empty() && node.attentive_ <= now_) {
    const Node::Waiting& packet = train.emplace_back(std::move(node.socket_.front()));
    node.socket_.pop_front();
    node.charged_ -= ReceiveBuffer::truesize(packet.bytes.size());
    if (node.dead) continue;
    ++delivered_;
    node.rnic().receive(test::delivered({.source = packet.flow.source,
                                         .destination = packet.flow.destination,
                                         .source_port = packet.flow.source_port,
                                         .traffic_class = packet.flow.traffic_class,
                                         .bytes = packet.bytes,
                                         .more = trains_() % 4 != 0}),
                        now_);
    node.attentive_ = now_ + spread(node.buffer.service);
  }
  node.rnic().finish_copies();
}

HostRing& World::ring(Node& from, Node& to) {
  return ring_between_
      .try_emplace({&from, &to}, rings_.capacity, rings_.capacity << rings_.doublings, from.slot(),
                   from.address(), to.address())
      .first->second;
}

void World::kill(Node& node) {
  node.dead = true;
  for (auto& other : nodes_) other->blocked_ = false;  // the registry tells them
}

void World::ring_bell(Node& node) {
  if (node.look_at_ != kNever || chance(rings_.lost_bells_ppm)) return;
  node.look_at_ = now_ + spread(rings_.wake) + (chance(rings_.away_ppm) ? rings_.away : 0ns);
}

void World::take_from(HostRing& ring, Node& node) {
  constexpr int kTurn = 64;
  if (meddle) meddle(ring);
  for (int i = 0; i < kTurn; ++i) {
    auto d = ring.next();
    if (!d) break;
    if (d->bytes.size() < packet::Bth::kSize + packet::kIcrcSize) continue;
    ++through_rings_;
    d->more = i + 1 < kTurn && ring.ready();
    node.rnic().receive(test::delivered(*d), now_);
  }
  node.rnic().finish_copies();
  ring.release();
}

/// What a process does when it was woken: it looks until nothing is there, and sleeps.
void World::look_at_rings(Node& node) {
  if (node.look_at_ > now_ || node.stopped) return;
  bool more = false;
  for (auto it = ring_between_.begin(); it != ring_between_.end();) {
    auto& [ends, ring] = *it;
    const bool reads = ends.second == &node && !node.dead;
    if (reads && ring.ready()) take_from(ring, node);
    if (reads && ring.broken()) {  // both begin anew
      ++broken_rings_;
      ends.first->blocked_ = false;
      it = ring_between_.erase(it);
      continue;
    }
    if (reads && ring.starved) ring_bell(*ends.first);
    // It sent in vain, and was woken because there is room.
    if (ends.first == &node && std::exchange(ring.starved, false)) node.blocked_ = false;
    more = more || (reads && ring.ready());
    ++it;
  }
  node.look_at_ = more ? now_ + 1us : kNever;
}

void World::work_all() {
  for (auto& node : nodes_) {
    if (!node->may_work(now_)) continue;
    do {
      node->blocked_ = !node->rnic().work(*node, now_);
    } while (node->rnic().has_work() && !node->blocked_);
    node->try_again_at_ = now_ + kBlockedPause;
    node->publish();
  }
  for (auto& node : nodes_) {
    node->rnic().notifications().clear();
    auto& events = node->rnic().events();
    node->events.insert(node->events.end(), events.begin(), events.end());
    events.clear();
  }
}

Instant World::next_event() {
  Instant next = arrivals_.empty() ? kNever : arrivals_.front().when;
  for (auto& node : nodes_) {
    if (node->stopped) continue;
    next = std::min({next, node->rnic().next_deadline(), node->look_at_});
    if (node->blocked_) next = std::min(next, node->try_again_at_);
    if (node->may_work(now_)) next = now_;  // done() has posted something
    if (!node->socket_.empty()) next = std::min(next, std::max(now_, node->attentive_));
  }
  return next;
}

bool World::run_until(const std::function<bool()>& done, Duration limit) {
  const Instant end = now_ + limit;
  for (;;) {
    work_all();
    if (done()) return true;
    const Instant next = next_event();
    if (next > end) {
      now_ = end;
      return false;
    }
    now_ = std::max(now_, next);
    while (!arrivals_.empty() && arrivals_.front().when <= now_) {
      std::pop_heap(arrivals_.begin(), arrivals_.end(), std::greater<>{});
      arrive(std::move(arrivals_.back()));
      arrivals_.pop_back();
    }
    for (auto& node : nodes_) {
      if (!node->stopped) drain(*node);
      look_at_rings(*node);
    }
  }
}

std::vector<engine::Completion> End::poll() {
  std::vector<engine::Completion> out;
  std::array<engine::Completion, 16> some;
  while (const std::size_t n = cq->poll(some))
    out.insert(out.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(n));
  return out;
}

namespace {

void check(const Status& s) {
  if (!s) throw std::runtime_error{s.error().message};
}

void create_qp(End& e, const ConnectOptions& o, engine::QpType type) {
  const bool shared = e.srq != nullptr;
  const bool xrc = type == engine::QpType::xrc_receive;
  e.qp = e.node->rnic()
             .create_qp({.pd = xrc ? engine::PdId{} : e.pd,
                         .send_cq = e.cq.get(),
                         .receive_cq = e.cq.get(),
                         .max_send = o.depth,
                         .max_receive = shared ? 0 : o.depth,
                         .max_send_sge = o.sges,
                         .max_receive_sge = o.sges,
                         .max_inline = o.max_inline,
                         .signal_all = false,
                         .type = type,
                         .srq = xrc ? nullptr : e.srq,
                         .xrcd = e.xrcd})
             .value();
}

struct StateChange {
  engine::QpState to;
  unsigned by_type[5];  // rc, uc, ud, xrc_send, xrc_receive
};

}  // namespace

End make_end(Node& node, const ConnectOptions& o, engine::QpType type, bool srq, std::uint32_t cq) {
  End e;
  e.node = &node;
  e.pd = e.node->rnic().alloc_pd().value();
  e.cq = std::make_shared<engine::CompletionQueue>(cq != 0 ? cq : 4 * o.depth);
  const bool xrc = type == engine::QpType::xrc_receive;
  if (xrc) e.xrcd = e.node->rnic().open_xrcd().value();
  if (srq || xrc) {
    e.srq = e.node->rnic()
                .create_srq({.pd = e.pd,
                             .depth = o.depth,
                             .max_sge = o.sges,
                             .xrc_cq = xrc ? e.cq.get() : nullptr,
                             .xrcd = e.xrcd})
                .value();
  }
  create_qp(e, o, type);
  return e;
}

End make_sibling(const End& end, const ConnectOptions& options) {
  End e = end;
  create_qp(e, options, end.qp->type);
  return e;
}

void connect(End& e, const End& peer, const ConnectOptions& o, Psn sq, Psn rq) {
  using engine::Access;
  using A = engine::Attr;
  constexpr unsigned kConnect = A::kPath | A::kPathMtu | A::kDestQpn | A::kRqPsn;
  constexpr unsigned kServe = kConnect | A::kMaxDestRdAtomic | A::kMinRnrTimer;
  constexpr unsigned kAsk =
      A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kSqPsn | A::kMaxRdAtomic;
  constexpr unsigned kBirth = A::kPkeyIndex | A::kPort | A::kAccess;
  static constexpr StateChange kWay[] = {
      {engine::QpState::init,
       {kBirth, kBirth, A::kPkeyIndex | A::kPort | A::kQkey, kBirth, kBirth}},
      {engine::QpState::rtr, {kServe, kConnect, 0, kConnect, kServe}},
      {engine::QpState::rts, {kAsk, A::kSqPsn, A::kSqPsn, kAsk, A::kTimeout | A::kSqPsn}},
  };
  engine::QpAttributes a;
  a.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  a.flow = {.source = e.node->address(),
            .destination = peer.node->address(),
            .source_port = 0xc000,
            .traffic_class = o.traffic_class};
  a.path_mtu = o.mtu;
  a.dest_qpn = peer.qp->qpn;
  a.rq_psn = rq;
  a.max_dest_rd_atomic = o.rd_atomic;
  a.min_rnr_timer = o.min_rnr_timer;
  a.timeout = o.timeout;
  a.retry_count = o.retry_count;
  a.rnr_retry = o.rnr_retry;
  a.sq_psn = sq;
  a.max_rd_atomic = o.rd_atomic;
  a.qkey = 0x1111;
  for (const StateChange& change : kWay) {
    a.state = change.to;
    check(e.node->rnic().modify_qp(
        *e.qp, a, A::kState | change.by_type[static_cast<std::size_t>(e.qp->type)]));
  }
}

Connection::Connection(const ConnectOptions& o, Node& at_a, Node& at_b)
    : a{make_end(at_a, o, o.type_a, false, o.cq_a)},
      b{make_end(at_b, o, o.type_b, o.srq_b, o.cq_b)} {
  connect(a, b, o, o.psn_a, o.psn_b);
  connect(b, a, o, o.psn_b, o.psn_a);
}

}  // namespace verbena::sim
