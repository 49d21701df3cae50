#pragma once

// A network in one thread: RNICs, a virtual clock, and links that lose, duplicate and delay.
// Everything follows from the seed.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "base/time.h"
#include "engine/rnic.h"

namespace verbena::sim {

struct Link {
  Duration delay = std::chrono::microseconds{5};
  Duration jitter{};  // more than the gap between packets reorders them
  std::uint32_t loss_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
};

class World;

/// A host: an RNIC, its memory, its address.
class Node final : engine::Dma, engine::Entropy, packet::FrameSink {
 public:
  Node(World& world, std::uint32_t slot, IpAddress address);

  [[nodiscard]] const IpAddress& address() const { return address_; }
  [[nodiscard]] engine::Rnic& rnic() { return rnic_; }

  /// Registers memory that lives as long as the node.
  engine::MemoryRegion expose(engine::PdId pd, std::span<std::uint8_t> bytes, unsigned access);
  /// From now on copies to and from this range fail, as if it were unmapped.
  void unmap(std::span<std::uint8_t> bytes) { unmapped_.push_back(range_of(bytes)); }

  /// The program is done with a queue pair.
  void destroy(engine::QueuePair& qp) { (void)rnic_.destroy_qp(qp, *this); }

  /// A host that has died: it sends and receives nothing.
  bool dead = false;

  [[nodiscard]] bool saw(engine::EventKind kind) const {
    return std::any_of(events.begin(), events.end(), [&](const auto& e) { return e.kind == kind; });
  }

  /// All that happened so far.
  std::vector<engine::Event> events;

 private:
  friend class World;
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
  std::span<std::uint8_t> reserve(const packet::Flow& flow, std::size_t size) override;
  void commit() override;

  World& world_;
  IpAddress address_;
  engine::Rnic rnic_;
  std::vector<engine::Segment> unmapped_;
  packet::Flow flow_;
  std::vector<std::uint8_t> frame_;
};

class World {
 public:
  World(std::uint64_t seed, Link link) : link_{link}, random_{seed} {}

  Node& add_node();
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t delivered() const { return delivered_; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  /// 0 … n-1.
  [[nodiscard]] std::uint32_t pick(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random_);
  }

  /// Sees each frame before it leaves, and may change it; false drops it.
  std::function<bool(const packet::Flow&, std::span<std::uint8_t>)> filter;

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
  void deliver(const Arrival& a);
  [[nodiscard]] bool chance(std::uint32_t ppm) { return pick(1'000'000) < ppm; }

  Link link_;
  std::mt19937_64 random_;
  Instant now_ = Instant{std::chrono::seconds{1}};
  std::uint64_t order_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t delivered_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
};

/// One end of a connection.
struct End {
  Node* node = nullptr;
  engine::PdId pd{};
  std::shared_ptr<engine::CompletionQueue> cq;  // of siblings, too
  engine::SharedReceiveQueue* srq = nullptr;
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
  Psn psn_a{0x1000};
  Psn psn_b{0x2000};
  engine::QpType type_a = engine::QpType::rc;
  engine::QpType type_b = engine::QpType::rc;
  bool srq_b = false;      // B receives from a shared queue
  std::uint32_t cq_a = 0;  // entries; 0: enough for all that may be posted
  std::uint32_t cq_b = 0;
};

/// A queue pair on a node of its own, in RESET.
[[nodiscard]] End make_end(World& world, const ConnectOptions& options, engine::QpType type,
                           bool srq, std::uint32_t cq = 0);
/// One more on the same node, with the same domain and queues.
[[nodiscard]] End make_sibling(const End& end, const ConnectOptions& options);
/// From RESET to RTS, towards `peer`.
void connect(End& end, const End& peer, const ConnectOptions& options, Psn sq, Psn rq);

/// Two nodes with one queue pair each, connected, in RTS.
struct Connection {
  Connection(World& world, const ConnectOptions& options);
  End a;
  End b;
};

}  // namespace verbena::sim
