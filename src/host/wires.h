#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/numbers.h"
#include "base/time.h"
#include "packet/frame.h"
#include "settings/fault_spec.h"
#include "wire/capture.h"
#include "wire/faulty_wire.h"
#include "wire/network.h"

namespace verbena::host {

/// The wires of a shard: one today. for_path() alone decides which wire a path takes; a further
/// wire is a member here and a case there.
class Wires final : public packet::FrameSink {
 public:
  /// Bytes of `room` that faults need.
  static constexpr std::size_t kRoomBytes = wire::FaultyWire::kRoomBytes;

  /// `capture`: nullptr, or where the frames of all wires are written to.
  explicit Wires(std::unique_ptr<wire::Network> network,
                 std::unique_ptr<wire::Capture> capture = nullptr)
      : capture_{std::move(capture)}, network_{std::move(network)} {
    if (capture_ != nullptr) outermost().set_tap(capture_.get());
  }
  /// From now on, frames leave through faults.
  void add_faults(const settings::FaultSpec& spec, std::span<std::uint8_t> room) {
    faulty_ = std::make_unique<wire::FaultyWire>(*network_, spec, room);
    faulty_->set_tap(capture_.get());
  }

  /// nullptr: nobody. It outlives the wires, or is taken away.
  void observe(wire::Observer* observer) { outermost().observe(observer); }

  /// The wire for frames of this flow to the queue pair `to`.
  [[nodiscard]] wire::Wire& for_path([[maybe_unused]] const packet::Flow& flow,
                                     [[maybe_unused]] Qpn to) {
    return outermost();
  }
  /// The wire that has addresses.
  [[nodiscard]] wire::Network& network() { return *network_; }

  // packet::FrameSink: what the engine sends.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) override {
    reserved_ = &for_path(flow, to);
    return reserved_->reserve(flow, to, size);
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                                std::size_t count) override {
    reserved_ = &for_path(flow, to);
    return reserved_->reserve_many(flow, to, size, count);
  }
  void commit() override { reserved_->commit(); }
  [[nodiscard]] bool full() const override { return outermost().full(); }

  /// Takes what has arrived, a bounded amount. True: there was something.
  bool receive(wire::DatagramSink& sink) { return network_->receive(sink) > 0; }
  void serve_control(wire::DatagramSink& sink) { network_->serve_control(sink); }
  /// From a wire of another process.
  void message(std::span<const std::uint8_t> bytes, wire::DatagramSink& sink) {
    network_->message(bytes, sink);
  }
  void flush() { outermost().flush(); }
  [[nodiscard]] Instant next_deadline() const { return outermost().next_deadline(); }
  [[nodiscard]] wire::Descriptors descriptors() const { return network_->descriptors(); }

  [[nodiscard]] const wire::WireCounters& counters() const { return network_->counters(); }
  /// nullptr: there are none.
  [[nodiscard]] const wire::FaultyWire* faulty() const { return faulty_.get(); }
  /// nullptr: there is none.
  [[nodiscard]] const wire::Capture* capture() const { return capture_.get(); }
  /// Frames that never left are lost without a word from the network. One text for each new
  /// reason, not for each frame; nullptr: nothing new.
  [[nodiscard]] const std::string* new_send_error() {
    if (counters().send_errors == send_errors_) return nullptr;
    send_errors_ = counters().send_errors;
    if (network_->last_send_error() == reported_) return nullptr;
    reported_ = network_->last_send_error();
    return &reported_;
  }

  /// In a forked child.
  void abandon() {
    network_->abandon();
    capture_.reset();
  }

 private:
  [[nodiscard]] wire::Wire& outermost() const {
    return faulty_ != nullptr ? static_cast<wire::Wire&>(*faulty_) : *network_;
  }

  std::unique_ptr<wire::Capture> capture_;
  std::unique_ptr<wire::Network> network_;
  std::unique_ptr<wire::FaultyWire> faulty_;  // around network_
  wire::Wire* reserved_ = network_.get();     // has the room that was reserved last
  std::uint64_t send_errors_ = 0;
  std::string reported_;  // the last reason
};

}  // namespace verbena::host
