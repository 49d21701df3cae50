#pragma once

// A network in one thread: RNICs, a virtual clock, links that lose, duplicate, reorder, corrupt,
// delay and queue, and sockets whose receive buffers overflow. Everything follows from the seed.
//
//   Node --> loss, corruption, duplication --> queue of the port to the receiver (rate, length)
//        --> delay, jitter, reordering --> receive buffer (truesize) --> the process --> Rnic
//   Node --> ring of the wire between processes of one host --> the process, when it looks --> Rnic

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/time.h"
#include "engine/rnic.h"
#include "tests/sim/host_ring.h"

namespace verbena::sim {

struct Link {
  Duration delay = std::chrono::microseconds{5};
  Duration jitter{};  // more than the gap between packets reorders them
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  Duration reorder_by = std::chrono::microseconds{50};  // a frame that is held back, and how long
  std::uint32_t corrupt_ppm = 0;
  bool deliver_corrupted = false;  // false: the wire's ICRC check finds it, and it is dropped

  // The port to the receiver: all that is sent to it passes there, whoever sent it.
  std::uint64_t bytes_per_second = 0;      // 0: no limit, nothing queues
  std::uint64_t queue_bytes = ~0ull;       // what doesn't fit is dropped
  std::uint64_t mark_above_bytes = ~0ull;  // a longer queue marks congestion (ECN)
};

/// A socket's receive buffer, and the process that reads it.
struct ReceiveBuffer {
  static constexpr std::uint32_t kDefault = 212'992;  // Linux, net.core.rmem_default

  std::uint32_t bytes = 0;  // of truesize; 0: no limit
  Duration service{};       // what the process takes for a packet: this ± a half
  Duration nap{};           // it looks at an empty socket only this often

  /// What Linux charges for a UDP datagram, as measured on its loopback.
  [[nodiscard]] static std::uint32_t truesize(std::size_t datagram);
};

/// Rings between the nodes, as if they were processes of one host.
struct HostRings {
  std::size_t capacity = 0;   // bytes of a ring; 0: there are none
  std::size_t doublings = 0;  // so often may it grow, when it is full
  Duration wake{};            // from a bell to a look: this ± a half
  Duration away{};            // now and then, so much longer
  std::uint32_t away_ppm = 0;
  std::uint32_t lost_bells_ppm = 0;  // a mistake that must be noticed
};

class World;

/// A host: an RNIC, its memory, its address.
class Node final : memory::Dma, engine::Entropy, packet::FrameSink {
 public:
  Node(World& world, std::uint32_t slot, IpAddress address);

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  [[nodiscard]] engine::Rnic& rnic() { return rnic_; }

  /// Registers memory that lives as long as the node.
  engine::MemoryRegion expose(engine::PdId pd, std::span<std::uint8_t> bytes, unsigned access);
  /// From now on copies to and from this range fail, as if it were unmapped.
  void unmap(std::span<std::uint8_t> bytes) { unmapped_.push_back(range_of(bytes)); }

  /// The program is done with a queue pair.
  void destroy(engine::QueuePair& qp) { (void)rnic_.destroy_qp(qp, *this); }

  /// A host that has died: it sends and receives nothing.
  bool dead = false;
  /// A process that was stopped: it does nothing until it goes on.
  bool stopped = false;

  ReceiveBuffer buffer{};
  /// Datagrams that did not fit into it.
  [[nodiscard]] std::uint64_t overflows() const { return overflows_; }

  [[nodiscard]] bool saw(engine::EventKind kind) const {
    return std::any_of(events.begin(), events.end(), [&](const auto& e) { return e.kind == kind; });
  }

  /// All that happened so far.
  std::vector<engine::Event> events;

 private:
  friend class World;
  struct Waiting {
    packet::Flow flow;
    std::vector<std::uint8_t> bytes;
  };
  static engine::Segment range_of(std::span<std::uint8_t> bytes) {
    return {reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] bool mapped(const engine::Segment& s) const;

  bool gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) override;
  bool scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare,
                                            std::uint64_t swap) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override;
  bool store(std::uint64_t address, std::uint64_t value) override;
  std::uint32_t next() override;
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to, std::size_t size) override;
  packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                  std::size_t count) override;
  void commit() override;
  bool full() const override { return false; }
  packet::Course choose_way(const packet::Flow& flow, Qpn to) override;
  [[nodiscard]] packet::Passage passage(const packet::Flow& flow, Qpn to) const override;
  [[nodiscard]] bool may_work(Instant now) const;
  void publish();

  World& world_;
  std::uint32_t slot_;
  IpAddress address_;
  engine::Rnic rnic_;
  std::vector<engine::Segment> unmapped_;
  packet::Flow flow_;
  std::vector<std::uint8_t> frames_;
  packet::FrameRooms rooms_{};
  std::size_t next_room_ = 0;

  // Rings.
  HostRing* ring_ = nullptr;  // that has the room that was reserved last
  bool blocked_ = false;      // all that it wants to send waits for room
  Instant try_again_at_{};
  Instant look_at_ = kNever;  // when it looks at its rings; kNever: it sleeps

  // The network's side.
  Instant port_free_{};  // when the port to us has sent all that is queued
  std::deque<Waiting> socket_;
  std::uint32_t charged_ = 0;  // truesize of what waits in the socket
  Instant attentive_{};        // when the process looks at the socket again
  std::uint64_t overflows_ = 0;
};

class World {
 public:
  World(std::uint64_t seed, Link link) : link_{link}, random_{seed}, trains_{seed} {}

  Node& add_node();
  void set_link(const Link& link) { link_ = link; }
  [[nodiscard]] Instant now() const { return now_; }
  /// Frames that the network lost. Of these: corrupted ones, and those that a queue was full for.
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t corrupted() const { return corrupted_; }
  [[nodiscard]] std::uint64_t queue_drops() const { return queue_drops_; }
  [[nodiscard]] std::uint64_t marked() const { return marked_; }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
  /// Another choice of which packets arrive as one.
  void come_together(std::uint64_t seed) { trains_.seed(seed); }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  /// 0 … n-1.
  [[nodiscard]] std::uint32_t pick(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random_);
  }

  /// Sees each frame before it leaves, and may change it; false drops it.
  std::function<bool(const packet::Flow&, std::span<std::uint8_t>)> filter;

  /// From now on, frames between nodes may take rings.
  void use_rings(const HostRings& rings) { rings_ = rings; }
  /// May change at any time; new messages ask.
  std::function<bool(const Node& from, const Node& to)> same_host = [](const Node&, const Node&) {
    return true;
  };
  /// Changes what lies in a ring, before it is read.
  std::function<void(HostRing&)> meddle;
  /// Its process dies; what it published is still read.
  void kill(Node& node);
  [[nodiscard]] std::uint64_t through_rings() const { return through_rings_; }
  /// How often a frame found no room in a ring.
  [[nodiscard]] std::uint64_t held_back() const { return held_back_; }
  [[nodiscard]] std::uint64_t broken_rings() const { return broken_rings_; }
  [[nodiscard]] std::uint64_t grown_rings() const { return grown_rings_; }

  /// False: `limit` passed, or nothing can happen any more, and the condition doesn't hold.
  [[nodiscard]] bool run_until(const std::function<bool()>& done, Duration limit);

 private:
  friend class Node;
  struct Arrival {
    Instant when;
    std::uint64_t order;
    packet::Flow flow;
    std::vector<std::uint8_t> bytes;
    friend bool operator>(const Arrival& a, const Arrival& b) {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };
  void transmit(const packet::Flow& flow, std::span<std::uint8_t> frame);
  [[nodiscard]] Node* node_at(const IpAddress& address);
  /// From half to one and a half of it.
  [[nodiscard]] Duration spread(Duration d);
  void flip_bits(std::vector<std::uint8_t>& bytes);
  /// Passes the port to the receiver: when it is through, or nothing if the queue was full.
  [[nodiscard]] std::optional<Instant> queue(Arrival& a);
  void arrive(Arrival a);
  void drain(Node& node);
  [[nodiscard]] HostRing& ring(Node& from, Node& to);
  void ring_bell(Node& node);
  void look_at_rings(Node& node);
  void take_from(HostRing& ring, Node& node);
  void work_all();
  [[nodiscard]] Instant next_event();
  [[nodiscard]] bool chance(std::uint32_t ppm) { return pick(1'000'000) < ppm; }

  Link link_;
  std::mt19937_64 random_;
  std::mt19937_64 trains_;  // which packets come together
  Instant now_ = Instant{std::chrono::seconds{1}};
  std::uint64_t order_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t corrupted_ = 0;
  std::uint64_t queue_drops_ = 0;
  std::uint64_t marked_ = 0;
  std::uint64_t delivered_ = 0;
  HostRings rings_{};
  std::map<std::pair<Node*, Node*>, HostRing> ring_between_;  // from, to
  std::uint64_t through_rings_ = 0;
  std::uint64_t held_back_ = 0;
  std::uint64_t broken_rings_ = 0;
  std::uint64_t grown_rings_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Arrival> arrivals_;  // a heap, the next one in front
};

/// One end of a connection.
struct End {
  Node* node = nullptr;
  engine::PdId pd{};
  std::shared_ptr<engine::CompletionQueue> cq;  // of siblings, too
  engine::SharedReceiveQueue* srq = nullptr;
  engine::XrcdId xrcd{};
  engine::QueuePair* qp = nullptr;

  [[nodiscard]] engine::PostResult send(const engine::SendRequest& r) {
    return node->rnic().post_send(*qp, r);
  }
  [[nodiscard]] engine::PostResult receive(const engine::ReceiveRequest& r) {
    return srq != nullptr ? engine::Rnic::post_receive(*srq, r) : node->rnic().post_receive(*qp, r);
  }
  /// All that is there.
  [[nodiscard]] std::vector<engine::Completion> poll();
};

struct ConnectOptions {
  std::uint16_t mtu = 1024;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t rd_atomic = 4;
  std::uint32_t depth = 64;
  std::uint32_t sges = 4;
  std::uint32_t max_inline = 256;
  std::uint8_t traffic_class = 0;  // 1, 2: the network may mark congestion
  Psn psn_a{0x1000};
  Psn psn_b{0x2000};
  engine::QpType type_a = engine::QpType::rc;
  engine::QpType type_b = engine::QpType::rc;
  bool srq_b = false;      // B receives from a shared queue
  std::uint32_t cq_a = 0;  // entries; 0: enough for all that may be posted
  std::uint32_t cq_b = 0;
};

/// A queue pair in RESET, with a domain and queues of its own.
[[nodiscard]] End make_end(Node& node, const ConnectOptions& options, engine::QpType type, bool srq,
                           std::uint32_t cq = 0);
/// One more on the same node, with the same domain and queues.
[[nodiscard]] End make_sibling(const End& end, const ConnectOptions& options);
/// From RESET to RTS, towards `peer`.
void connect(End& end, const End& peer, const ConnectOptions& options, Psn sq, Psn rq);

/// Two nodes with one queue pair each, connected, in RTS.
struct Connection {
  Connection(World& world, const ConnectOptions& options)
      : Connection{options, world.add_node(), world.add_node()} {}
  /// A further connection between nodes that are there.
  Connection(const ConnectOptions& options, Node& at_a, Node& at_b);
  End a;
  End b;
};

}  // namespace verbena::sim
