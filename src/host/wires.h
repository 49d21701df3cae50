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
#include "packet/frame.h"
#include "settings/fault_spec.h"
#include "wire/capture.h"
#include "wire/faulty_wire.h"
#include "wire/network.h"

namespace verbena::host {

/// The wires of a shard: one today. for_path() alone decides which wire a path takes; all else
/// holds for any number.
class Wires final : public packet::FrameSink {
 public:
  /// Bytes of `room` that the faults of a wire need.
  static constexpr std::size_t kRoomBytes = wire::FaultyWire::kRoomBytes;

  /// `capture`: nullptr, or where the frames of all wires are written to.
  explicit Wires(std::unique_ptr<wire::Network> network,
                 std::unique_ptr<wire::Capture> capture = nullptr);
  /// From now on, frames leave through faults, whatever their wire. `room`: kRoomBytes for each.
  void add_faults(const settings::FaultSpec& spec, std::span<std::uint8_t> room);

  /// nullptr: nobody. It outlives the wires, or is taken away.
  void observe(wire::Observer* observer) {
    for (Line& line : lines_) line.outermost->observe(observer);
  }

  /// The wire for frames of this flow to the queue pair `to`.
  [[nodiscard]] wire::Wire& for_path([[maybe_unused]] const packet::Flow& flow,
                                     [[maybe_unused]] Qpn to) {
    return *lines_.front().outermost;
  }
  /// The wire that has addresses.
  [[nodiscard]] wire::Network& network() { return network_; }

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
  [[nodiscard]] bool full() const override {
    return std::ranges::all_of(lines_, [](const Line& line) { return line.outermost->full(); });
  }

  /// Takes what has arrived, a bounded amount. True: there was something.
  bool receive(wire::DatagramSink& sink) {
    std::size_t frames = 0;
    for (Line& line : lines_) frames += line.wire->receive(sink);
    return frames > 0;
  }
  void serve_control(wire::DatagramSink& sink) {
    for (Line& line : lines_) line.wire->serve_control(sink);
  }
  /// From the wire `id` of another process.
  void message(std::uint8_t id, std::span<const std::uint8_t> bytes, wire::DatagramSink& sink);
  void flush() {
    for (Line& line : lines_) line.outermost->flush();
  }
  [[nodiscard]] Instant next_deadline() const {
    Instant next = kNever;
    for (const Line& line : lines_) next = std::min(next, line.outermost->next_deadline());
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
    for (Line& line : lines_) {
      const bool more = line.counters.send_errors != line.send_errors;
      if (more && line.has_new_send_error()) return &line.reported;
    }
    return nullptr;
  }

  /// In a forked child.
  void abandon();

 private:
  struct Line {
    explicit Line(std::unique_ptr<wire::Wire> w)
        : wire{std::move(w)}, outermost{wire.get()}, counters{wire->counters()} {}

    /// There are more send errors than before. True: their reason is new, too.
    [[nodiscard]] bool has_new_send_error();

    std::unique_ptr<wire::Wire> wire;
    std::unique_ptr<wire::FaultyWire> faults{};  // around it; nullptr: none
    wire::Wire* outermost;                       // of these two
    const wire::WireCounters& counters;
    std::uint64_t send_errors = 0;
    std::string reported{};  // the last reason
  };

  std::unique_ptr<wire::Capture> capture_;
  wire::Network& network_;
  std::vector<Line> lines_;
  wire::Wire* reserved_;  // has the room that was reserved last
};

}  // namespace verbena::host
