#pragma once

// One end of a recorded conversation, played by our engine: an RNIC with one connected queue
// pair and one memory region that have the recorded numbers, and a sink that takes a frame only
// when the replay lets it.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/psn.h"
#include "base/time.h"
#include "engine/rnic.h"
#include "tests/support/pcap.h"

namespace verbena::test {

struct HostSetup {
  engine::QpType type = engine::QpType::rc;
  IpAddress address;
  IpAddress peer_address;
  Qpn qpn;
  Qpn peer_qpn;
  Psn sq_psn;
  Psn rq_psn;
  Key key;
  std::uint64_t iova = 0;
  std::vector<std::uint8_t> memory;  // of the region
  unsigned region_access = 0;
  std::optional<Key> window{};  // type 2, onto the whole region
  unsigned qp_access = 0;
  std::uint16_t mtu = 1024;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint32_t qkey = 0;  // UD
};

class Host final : memory::Dma, engine::Entropy, packet::FrameSink {
 public:
  using Bytes = std::vector<std::uint8_t>;
  static constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

  /// Throws std::runtime_error when the engine refuses, or hands out other numbers.
  explicit Host(HostSetup setup);

  [[nodiscard]] engine::Rnic& rnic() { return rnic_; }
  [[nodiscard]] engine::QueuePair& qp() { return *qp_; }
  [[nodiscard]] std::span<const std::uint8_t> memory() const { return setup_.memory; }
  /// `length` bytes of the region from `offset`.
  [[nodiscard]] engine::Sge sge(std::size_t offset, std::uint32_t length) const;

  /// Where a datagram to the peer goes.
  [[nodiscard]] packet::Flow flow() const;

  void receive(const Captured& packet, Instant now);
  /// `frame` is BTH … pad; it comes from the peer.
  void receive(std::span<const std::uint8_t> frame, Instant now);
  /// Lets the engine work; what it sends, at most `limit` frames, without ICRC.
  [[nodiscard]] std::vector<Bytes> work(Instant now, std::size_t limit = kAll);
  /// Whether the engine would send something now.
  [[nodiscard]] bool wants_to_send(Instant now);

  [[nodiscard]] std::vector<engine::Completion> poll_send() { return poll(*send_cq_); }
  [[nodiscard]] std::vector<engine::Completion> poll_receive() { return poll(*receive_cq_); }

 private:
  static std::vector<engine::Completion> poll(engine::CompletionQueue& cq);
  void create_qp(engine::PdId pd);
  void check_inside(const engine::Segment& s) const;
  void connect();
  void bind(engine::PdId pd);
  [[nodiscard]] std::uint64_t* word_at(std::uint64_t address) const;

  bool gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) override;
  bool scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare,
                                            std::uint64_t swap) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override;
  bool store(std::uint64_t address, std::uint64_t value) override;
  std::uint32_t next() override;
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to, std::size_t size) override;
  void commit() override;
  bool full() const override { return room_ == 0; }

  HostSetup setup_;
  std::vector<std::uint32_t> numbers_;  // that next() gives, last first
  std::size_t room_ = 0;                // frames that the sink takes
  bool refused_ = false;                // it had no room for one
  Bytes frame_;
  std::vector<Bytes> sent_;
  std::unique_ptr<engine::CompletionQueue> send_cq_;
  std::unique_ptr<engine::CompletionQueue> receive_cq_;
  engine::Rnic rnic_;
  engine::QueuePair* qp_ = nullptr;
};

}  // namespace verbena::test
