#pragma once

// The wire between processes of one host: frames cross rings in shared memory. Nothing is lost
// there, so a frame has no checksum, and a full ring holds its senders back.
//
//   engine --reserve, commit--> Link's ring --publish, bell--> other process: receive --> sink
//
// A pair of processes has one link, made when the first frame wants to go there: the registry's
// sockets carry an offer of memory from each to the other. The sender needn't wait for the answer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/local_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "base/time.h"
#include "registry/registry.h"
#include "system/fd.h"
#include "wire/observer.h"
#include "wire/shm/link.h"
#include "wire/wire.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

/// Why frames to a queue pair take, or don't take, the rings.
enum class Carriage : std::uint8_t { carried, other_host, peer_declines, no_memory };

class ShmWire final : public Wire, registry::Watcher {
 public:
  /// `registry` outlives the wire.
  static Result<std::unique_ptr<ShmWire>> create(registry::Registry& registry);
  ~ShmWire() override;
  ShmWire(const ShmWire&) = delete;
  ShmWire& operator=(const ShmWire&) = delete;

  /// Frames to this address are received.
  void open_address(const LocalAddress& local);
  /// There is a link to some process.
  [[nodiscard]] bool in_use() const { return !live_.empty(); }
  /// Nothing waits that the process of `slot` has published.
  [[nodiscard]] bool drained(std::uint32_t slot) const {
    return links_[slot] == nullptr || !links_[slot]->ready();
  }
  /// Whether frames of this flow to the queue pair `to` can go by here. Makes the link that they
  /// need.
  [[nodiscard]] Carriage carriage(const packet::Flow& flow, Qpn to);
  /// The same, as far as it can be told without one.
  [[nodiscard]] Carriage would_carry(const packet::Flow& flow, Qpn to) const;

  /// The processes that a frame to QP 1 is for, by queue pair numbers of theirs to send it to;
  /// empty: none of ours receives at its destination, or not all of them by here.
  [[nodiscard]] std::vector<Qpn> takers(const packet::Flow& flow,
                                        std::span<const std::uint8_t> frame);
  /// Whether a live process has the queue pair's slot.
  [[nodiscard]] bool is_held(Qpn to) const { return registry_.held(to.slot()); }

  // packet::FrameSink: frames are written where the other process reads them.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) override {
    return reserve_many(flow, to, size, 1).bytes;
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                                std::size_t count) override;
  void commit() override;
  void hurry() override { hurries_ = true; }
  [[nodiscard]] packet::Passage passage(const packet::Flow&, Qpn to) const override {
    const shm::Link* const link = links_[to.slot()].get();
    return link != nullptr ? link->passage() : packet::Passage{};
  }
  /// A link may be; the others are not.
  [[nodiscard]] bool full() const override { return false; }

  // Wire
  [[nodiscard]] WireId id() const override { return WireId::shm; }
  [[nodiscard]] bool send_sealed(const packet::Flow& flow, Qpn to,
                                 std::span<const std::uint8_t> frame) override;
  [[nodiscard]] Departure departure_of(const packet::Flow& flow) override {
    return {flow.source_port, interface_of(flow.source)};
  }
  void flush() override;
  std::size_t receive(DatagramSink& sink) override;
  void serve_control(DatagramSink&) override {}
  void message(const registry::PeerMessage& message, DatagramSink& sink) override;
  [[nodiscard]] bool arrived() const override;
  [[nodiscard]] bool may_sleep() override;
  void woken() override;
  [[nodiscard]] Instant next_deadline() const override { return kNever; }
  [[nodiscard]] Descriptors descriptors() const override { return {.bell = bell_.get()}; }
  [[nodiscard]] const WireCounters& counters() const override { return counters_; }
  [[nodiscard]] const std::string& last_send_error() const override { return last_error_; }
  /// Processes whose frames are captured don't take this wire.
  void set_tap(Tap*) override {}
  void observe(Observer* observer) override { observer_ = observer; }
  void abandon() override;

 private:
  /// One for each process that there can be.
  using Links = std::vector<std::unique_ptr<shm::Link>>;

  ShmWire(registry::Registry& registry, Fd bell);

  // registry::Watcher
  void member_died(std::uint32_t slot) override;

  /// Other processes may offer links, or shall not.
  void announce(bool takes_rings);
  /// What another process offers, or is offered.
  struct Offer {
    std::uint32_t slot = 0;
    std::uint64_t link = 0;
    std::uint64_t answers = 0;
  };
  [[nodiscard]] shm::Link* link_to(std::uint32_t slot);
  /// nullopt: there is no memory, or all that rings may have is in use.
  [[nodiscard]] std::optional<shm::Segment::Made> new_segment();
  /// To the process of `slot`, which is offered it, or to this one. nullptr: that failed.
  [[nodiscard]] shm::Link* make_link(std::uint32_t slot);
  [[nodiscard]] shm::Link* make_own_link(shm::Segment::Made made);
  /// nullptr: the other process is gone, and `made` as it was.
  [[nodiscard]] shm::Link* offer_link(Offer offer, shm::Segment::Made&& made);
  /// One that takes what the process has published by now, and goes.
  [[nodiscard]] shm::Link* make_last_link(std::uint32_t slot, shm::Segment::Made&& made);
  shm::Link* add_link(std::unique_ptr<shm::Link> link);
  [[nodiscard]] bool is_open(const IpAddress& address) const;
  [[nodiscard]] bool receives_at(std::uint32_t slot, const packet::Flow& flow) const;
  /// Its ends are addresses of this process and of the one of `slot`.
  [[nodiscard]] bool joins(std::uint32_t slot, const packet::Flow& flow) const;
  [[nodiscard]] bool takes_rings(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t anybody_at(const packet::Flow& flow) const;
  [[nodiscard]] bool send_offer(const Offer& offer, const Fd& segment);
  void refuse(std::uint32_t slot, std::uint64_t id);
  /// Offers a link, unless that is too soon after it was in vain.
  [[nodiscard]] Carriage ask(std::uint32_t slot);
  /// While the offer is not answered.
  [[nodiscard]] Carriage offered(std::uint32_t slot) const;
  void take_offer(const Offer& offer, std::span<Fd> descriptors, DatagramSink& sink);
  /// Our end for what is offered. nullptr: it is refused.
  [[nodiscard]] shm::Link* link_for(const Offer& offer, DatagramSink& sink);
  /// Not a pipe, say, which a write to could end the program.
  [[nodiscard]] bool is_bell(const Fd& descriptor) const;
  void take_refusal(std::uint32_t slot, std::uint64_t id, DatagramSink& sink);
  /// The process of `slot` is there, but the link to it is of no use.
  void give_up(std::uint32_t slot, Carriage why, DatagramSink& sink);
  void enlarge(shm::Link& link);
  std::size_t receive_from(shm::Link& link, std::size_t most, DatagramSink& sink);
  /// `may_go_on`: the next frame of the link is taken at once.
  void deliver(packet::Datagram& d, const shm::Link& link, bool may_go_on, DatagramSink& sink);
  void drop_link(std::uint32_t slot);
  void touch(shm::Link& link);
  [[nodiscard]] unsigned interface_of(const IpAddress& address) const;
  /// What is counted for an address of ours, and the size of its IP and UDP headers.
  struct Port {
    IpAddress address{};
    std::size_t place = 0;  // in the counters
    std::size_t headers = 0;
  };
  [[nodiscard]] PortTraffic& traffic_of(const IpAddress& address, Port& last);

  registry::Registry& registry_;
  Fd bell_;
  std::vector<LocalAddress> addresses_;
  Links links_;                      // by slot
  std::vector<shm::Link*> live_;     // of these
  std::vector<shm::Link*> touched_;  // since flush()
  std::size_t ring_bytes_ = 0;       // of memory for our rings
  bool asleep_ = false;
  struct Pause {
    Instant until{};
    Duration length{};  // {}: no link was given up
    Carriage why{};
  };
  std::unordered_map<std::uint32_t, Pause> pauses_;  // by slot, until they accept

  shm::Link* reserved_link_ = nullptr;  // nullptr: what is committed is lost
  packet::Flow reserved_flow_{};
  std::size_t reserved_bytes_ = 0;
  bool hurries_ = false;            // the next frame is published when it is committed
  std::vector<std::uint8_t> lost_;  // room for frames that go nowhere
  std::vector<std::uint8_t> copy_;  // of a small frame that arrives

  WireCounters counters_;
  // For the last frame.
  Port sent_from_{};
  Port received_at_{};
  Observer* observer_ = nullptr;
  std::string last_error_;
};

}  // namespace verbena::wire
