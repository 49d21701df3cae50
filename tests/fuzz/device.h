#pragma once

// An RNIC under attack: queue pairs of every type, connected to peers that don't exist, and
// memory that is watched. Any broken promise aborts with a word about it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "engine/rnic.h"

namespace verbena::fuzz {

class Device final : memory::Dma, engine::Entropy, packet::FrameSink {
 public:
  static constexpr std::size_t kQueuePairs = 8;
  static constexpr std::uint32_t kQkey = 0x1111'1111;

  /// Memory that a request may name. The peer may write to the first three.
  enum Area : std::uint8_t { open, zero_based, window, read_only, foreign, local };
  static constexpr std::size_t kAreas = 6;

  /// Its queue pairs have numbers of this slot, and their peers of that one.
  explicit Device(std::uint32_t slot = 1, std::uint32_t peer_slot = 1);

  static IpAddress address() { return IpAddress::v4({10, 0, 0, 1}); }
  static IpAddress peer() { return IpAddress::v4({10, 0, 0, 2}); }
  static IpAddress group() { return IpAddress::v4({239, 0, 0, 1}); }

  [[nodiscard]] engine::QueuePair& qp(std::size_t i) { return *qps_[i % kQueuePairs]; }
  [[nodiscard]] const engine::MemoryRegion& area(std::size_t i) const { return areas_[i % kAreas]; }
  [[nodiscard]] std::uint32_t xrc_srq(std::size_t i) const { return xrc_srqs_[i % 2]->number; }

  // What happens from outside.

  void receive(const packet::Datagram& d) { rnic_.receive(d, now_); }
  void rings_lost(std::uint32_t slot) { rnic_.rings_lost(slot, now_); }
  void pass(Duration time) { now_ += time; }

  // What the program does.

  void post_send(std::size_t i, engine::SendKind kind, std::uint32_t length, std::size_t remote);
  /// Out of whatever state it is in, through RESET.
  void revive(std::size_t i);
  void change_state(std::size_t i, engine::QpState to);
  void bind_window();
  void renew_xrc_srq(std::size_t i);
  void renew_queue_pair(std::size_t i);
  void set_srq_limit(std::uint32_t limit);
  /// The area gets another key; what is posted has the old one.
  void renew_area(Area area);
  void arm();
  /// Whether it posts receives.
  void starve(bool yes) { starving_ = yes; }

  // What goes wrong.

  /// The next frames find no room on the wire.
  void block(unsigned frames) { blocked_ = frames; }
  /// The next copies find no memory.
  void unmap(unsigned copies) { unmapped_ = copies; }

  /// Receives are posted, frames sent, completions polled; everything is looked at.
  void settle();
  /// All queue pairs to ERR: what was posted to them has completed, once.
  void flush_all();

 private:
  enum class Queue : std::uint8_t { send, receive, shared };
  struct Posted {
    Queue queue{};
    const void* owner = nullptr;  // the queue pair or the shared queue
    const engine::CompletionQueue* cq = nullptr;
    std::uint64_t length = 0;
  };

  bool gather(std::span<const engine::Segment> from, std::span<std::uint8_t> into) override;
  bool scatter(std::span<const std::uint8_t> from, std::span<const engine::Segment> into) override;
  std::optional<std::uint64_t> compare_swap(std::uint64_t address, std::uint64_t compare,
                                            std::uint64_t swap) override;
  std::optional<std::uint64_t> fetch_add(std::uint64_t address, std::uint64_t add) override;
  bool store(std::uint64_t address, std::uint64_t value) override;
  std::uint32_t next() override { return static_cast<std::uint32_t>(random_()); }
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to, std::size_t size) override;
  void commit() override;
  bool full() const override { return false; }

  void create_memory();
  void create_queue_pair(std::size_t i);
  engine::SharedReceiveQueue* create_xrc_srq(std::size_t i);
  void bring_up(std::size_t i);
  void post_receives();
  template <typename Post>
  void post_receive(const Posted& posted, Post post);
  void forget(const void* owner);
  void poll(engine::CompletionQueue& cq);
  void poll_all();
  void check_frame() const;
  void check_memory() const;
  [[nodiscard]] bool is_unmapped();
  [[nodiscard]] std::uint64_t word_at(std::uint64_t address) const;
  [[nodiscard]] bool inside(const engine::Segment& s, Area area) const;

  std::mt19937_64 random_{7};
  Instant now_{std::chrono::seconds{1}};
  std::vector<std::uint8_t> arena_;
  std::vector<std::uint8_t> original_;  // of the arena
  Qpn peer_qpn_;
  engine::Rnic rnic_;
  engine::PdId pd_{};
  engine::XrcdId xrcd_{};
  std::array<engine::MemoryRegion, kAreas> areas_{};
  std::array<std::unique_ptr<engine::CompletionQueue>, 3>
      cqs_;  // of sends, receives, shared receives
  engine::SharedReceiveQueue* srq_ = nullptr;
  std::array<engine::SharedReceiveQueue*, 2> xrc_srqs_{};
  std::array<std::unique_ptr<engine::CompletionQueue>, 2> xrc_cqs_;
  std::array<engine::QueuePair*, kQueuePairs> qps_{};
  std::unordered_map<std::uint64_t, Posted> posted_;  // by wr_id
  std::uint64_t next_wr_id_ = 1;
  bool starving_ = false;
  unsigned blocked_ = 0;
  unsigned unmapped_ = 0;
  std::vector<std::uint8_t> frame_;
};

}  // namespace verbena::fuzz
