#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/ip_address.h"
#include "base/time.h"
#include "packet/frame.h"
#include "wire/udp_wire.h"

namespace verbena::host {

/// The wires of a shard: one today. for_path() alone decides which wire a path takes; a further
/// wire is a member here and a case there.
class Wires {
 public:
  explicit Wires(std::unique_ptr<wire::UdpWire> udp) : udp_{std::move(udp)} {}

  /// The wire for packets to `destination`, a host or a multicast group.
  [[nodiscard]] wire::UdpWire& for_path([[maybe_unused]] const IpAddress& destination) {
    return *udp_;
  }
  /// Where the engine's frames leave. With several wires, this is a sink that asks for_path().
  [[nodiscard]] packet::FrameSink& sink() { return *udp_; }
  /// The wire that receives at the addresses of network interfaces.
  [[nodiscard]] wire::UdpWire& network() { return *udp_; }
  [[nodiscard]] const wire::UdpWire& network() const { return *udp_; }

  /// Takes what has arrived, a bounded amount. True: there was something.
  bool receive(wire::DatagramSink& sink) { return udp_->receive(sink) > 0; }
  void serve_control(wire::DatagramSink& sink) { udp_->serve_control(sink); }
  void flush() { udp_->flush(); }
  [[nodiscard]] Instant next_deadline() const { return udp_->next_deadline(); }
  /// When the faults will have released what they delay; {}: they delay nothing.
  [[nodiscard]] Instant empty_at() const { return udp_->empty_at(); }

  /// Frames that never left are lost without a word from the network. One text for each new
  /// reason, not for each frame; nullptr: nothing new.
  [[nodiscard]] const std::string* new_send_error() {
    if (udp_->counters().send_errors == send_errors_) return nullptr;
    send_errors_ = udp_->counters().send_errors;
    if (udp_->last_send_error() == reported_) return nullptr;
    reported_ = udp_->last_send_error();
    return &reported_;
  }

  /// In a forked child.
  void abandon() { udp_->abandon(); }

 private:
  std::unique_ptr<wire::UdpWire> udp_;
  std::uint64_t send_errors_ = 0;
  std::string reported_;  // the last reason
};

}  // namespace verbena::host
