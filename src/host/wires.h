#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "base/time.h"
#include "host/wire_line.h"
#include "packet/frame.h"
#include "settings/fault_spec.h"
#include "wire/capture.h"
#include "wire/faulty_wire.h"
#include "wire/network.h"
#include "wire/shm/shm_wire.h"

namespace verbena::host {

/// The wires of a shard. choose_way() and for_path() alone decide which wire a path takes; all else
/// holds for any number.
class Wires final : public packet::FrameSink {
 public:
  /// Bytes of `room` that the faults of a wire need.
  static constexpr std::size_t kRoomBytes = wire::FaultyWire::kRoomBytes;

  /// `capture`: nullptr, or where the frames of all wires are written to.
  explicit Wires(std::unique_ptr<wire::Network> network,
                 std::unique_ptr<wire::Capture> capture = nullptr);
  /// From now on, frames to processes of this host may go by this one.
  void add(std::unique_ptr<wire::ShmWire> shm);
  /// Why none was added.
  void forgo_shm(packet::Detour why) { no_shm_ = why; }
  /// What choose_way() would say now, as far as it can be told without doing anything for it.
  [[nodiscard]] packet::Course expected_way(const packet::Flow& flow, Qpn to) const {
    return shm_ != nullptr ? course_of(shm_->would_carry(flow, to), flow)
                           : packet::Course{.detour = no_shm_};
  }
  /// A process of this host has the queue pair, as far as its number says.
  [[nodiscard]] bool is_held(Qpn to) const { return shm_ != nullptr && shm_->is_held(to); }
  /// From now on, frames leave through faults, whatever their wire. `room`: kRoomBytes for each.
  void add_faults(const settings::FaultSpec& spec, std::span<std::uint8_t> room);

  /// nullptr: nobody. It outlives the wires, or is taken away.
  void observe(wire::Observer* observer) {
    for (WireLine& line : lines_) line.outermost->observe(observer);
  }

  /// The wire for frames of this flow.
  [[nodiscard]] wire::Wire& for_path(const packet::Flow& flow) const {
    const bool host = flow.way == packet::Way::host && lines_.size() > kShm;
    return *lines_[host ? kShm : kNetwork].outermost;
  }
  /// The wire that has addresses.
  [[nodiscard]] wire::Network& network() { return network_; }
  /// From now on, frames to this address are received. Where somebody else has the network's port,
  /// rings alone bring some.
  Status open_address(const LocalAddress& local);
  /// From now on, no frame takes the network.
  void forbid_network() { network_forbidden_ = true; }
  [[nodiscard]] bool network_forbidden() const { return network_forbidden_; }
  /// No frame can take the network from this address, which is open.
  [[nodiscard]] bool rings_alone(const IpAddress& address) const {
    return std::ranges::find(rings_alone_, address) != rings_alone_.end();
  }
  /// See wire::Network.
  Result<std::uint16_t> source_port(const IpAddress& address, Qpn qpn);
  Status join(const LocalAddress& group);

  // QP 1.
  /// The queue pair numbers to send a frame to by rings; empty: it has to take the network.
  [[nodiscard]] std::vector<Qpn> management_takers(const packet::Flow& flow,
                                                   std::span<const std::uint8_t> frame) {
    return shm_ != nullptr ? shm_->takers(flow, frame) : std::vector<Qpn>{};
  }
  /// Gives a frame that arrived to another process of this host. False: it can't take it now.
  bool hand_over(const packet::Datagram& d, std::uint32_t slot);

  // packet::FrameSink: what the engine sends.
  [[nodiscard]] packet::Course choose_way(const packet::Flow& flow, Qpn to) override {
    return shm_ != nullptr ? course_of(shm_->carriage(flow, to), flow)
                           : packet::Course{.detour = no_shm_};
  }
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) override {
    reserved_ = &for_path(flow);
    return reserved_->reserve(flow, to, size);
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                                std::size_t count) override {
    reserved_ = &for_path(flow);
    return reserved_->reserve_many(flow, to, size, count);
  }
  [[nodiscard]] packet::Passage passage(const packet::Flow& flow, Qpn to) const override {
    return for_path(flow).passage(flow, to);
  }
  void commit() override { reserved_->commit(); }
  void hurry() override {
    if (shm_ != nullptr) shm_->hurry();
  }
  [[nodiscard]] bool full() const override {
    return std::ranges::all_of(lines_, [](const WireLine& line) { return line.outermost->full(); });
  }

  // See Wire.
  [[nodiscard]] bool arrived() const {
    return std::ranges::any_of(lines_, [](const WireLine& line) { return line.wire->arrived(); });
  }
  /// Frames come by rings, as far as they come at all lately, and none has.
  [[nodiscard]] bool quiet() const { return shm_ != nullptr && shm_->in_use() && !shm_->arrived(); }
  [[nodiscard]] bool may_sleep() {
    bool may = true;
    for (WireLine& line : lines_) may = line.wire->may_sleep() && may;
    return may;
  }
  void woken() {
    for (WireLine& line : lines_) line.wire->woken();
  }

  /// Takes what has arrived, a bounded amount. True: there was something.
  bool receive(wire::DatagramSink& sink) {
    std::size_t frames = 0;
    for (WireLine& line : lines_) frames += line.wire->receive(sink);
    return frames > 0;
  }
  /// From processes of this host alone, if there are rings: costs no system call.
  bool receive_rings(wire::DatagramSink& sink) {
    return shm_ != nullptr ? lines_[kShm].wire->receive(sink) > 0 : receive(sink);
  }
  /// The same as receive(), for somebody who soon comes again: looking at the network costs a
  /// system call, so while rings are in use it has to wait if nothing came from there lately.
  bool receive_often(wire::DatagramSink& sink, Instant now);
  void serve_control(wire::DatagramSink& sink) {
    for (WireLine& line : lines_) line.wire->serve_control(sink);
  }
  /// Nothing that the process of `slot` sent by the rings waits to be received.
  [[nodiscard]] bool drained(std::uint32_t slot) const {
    return shm_ == nullptr || shm_->drained(slot);
  }
  /// From a wire of another process, to the same one here.
  void message(const registry::PeerMessage& message, wire::DatagramSink& sink);
  void flush() {
    for (WireLine& line : lines_) line.outermost->flush();
  }
  [[nodiscard]] Instant next_deadline() const {
    Instant next = kNever;
    for (const WireLine& line : lines_) next = std::min(next, line.outermost->next_deadline());
    return next;
  }
  [[nodiscard]] std::vector<wire::Descriptors> descriptors() const;

  /// Of all wires together.
  [[nodiscard]] wire::WireCounters counters() const;
  /// nullopt: there are no faults.
  [[nodiscard]] std::optional<wire::FaultCounters> fault_counters() const;
  /// When everything that faults delay now will have left; {}: nothing is delayed.
  [[nodiscard]] Instant delayed_until() const;
  /// nullptr: there is none.
  [[nodiscard]] const wire::Capture* capture() const { return capture_.get(); }
  /// Frames that never left are lost without a word from the network. One text for each new
  /// reason, not for each frame; nullptr: nothing new.
  [[nodiscard]] const std::string* new_send_error() {
    for (WireLine& line : lines_) {
      if (line.has_new_send_error()) return &line.reported;
    }
    return nullptr;
  }

  /// In a forked child.
  void abandon();

 private:
  [[nodiscard]] packet::Course course_of(wire::Carriage carriage, const packet::Flow& flow) const;

  std::unique_ptr<wire::Capture> capture_;
  wire::Network& network_;
  static constexpr std::size_t kNetwork = 0, kShm = 1;
  std::vector<WireLine> lines_;
  wire::ShmWire* shm_ = nullptr;  // of these; nullptr: frames take the network alone
  bool network_forbidden_ = false;
  std::vector<IpAddress> rings_alone_;
  packet::Detour no_shm_ = packet::Detour::unknown;
  Instant network_gave_{};     // something, to receive_often()
  Instant look_at_network_{};  // not before then
  wire::Wire* reserved_;       // has the room that was reserved last
};

}  // namespace verbena::host
