#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "settings/fault_spec.h"
#include "wire/faults.h"
#include "wire/tap.h"
#include "wire/wire.h"

namespace verbena::wire {

/// A wire that loses, delays and damages what leaves by another one. Frames get their ICRC here, so
/// that damage shows. What arrives passes untouched.
class FaultyWire final : public Wire {
 public:
  /// Bytes of `room` that it needs: one frame, which the engine writes there.
  static constexpr std::size_t kRoomBytes = 1u << 16;
  static constexpr std::size_t kMaxWaiting = 32;  // frames, before the faults have their say

  /// `inner` outlives this.
  FaultyWire(Wire& inner, const settings::FaultSpec& spec, std::span<std::uint8_t> room)
      : inner_{inner}, faults_{spec}, room_{room} {}

  [[nodiscard]] const FaultCounters& fault_counters() const { return faults_.counters(); }
  /// When everything that is delayed now will have left; {}: nothing is.
  [[nodiscard]] Instant empty_at() const {
    return std::max(faults_.empty_at(), refused_.empty() ? Instant{} : retry_at_);
  }

  // packet::FrameSink
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) override;
  void commit() override;
  [[nodiscard]] bool full() const override { return full_; }

  // Wire
  [[nodiscard]] WireId id() const override { return inner_.id(); }
  [[nodiscard]] bool send_sealed(const packet::Flow& flow, Qpn to,
                                 std::span<const std::uint8_t> frame) override;
  [[nodiscard]] Departure departure_of(const packet::Flow& flow) override {
    return inner_.departure_of(flow);
  }
  void flush() override;
  std::size_t receive(DatagramSink& sink) override { return inner_.receive(sink); }
  void serve_control(DatagramSink& sink) override { inner_.serve_control(sink); }
  void message(const registry::PeerMessage& message, DatagramSink& sink) override {
    inner_.message(message, sink);
  }
  [[nodiscard]] Instant next_deadline() const override;
  [[nodiscard]] Descriptors descriptors() const override { return inner_.descriptors(); }
  [[nodiscard]] const WireCounters& counters() const override { return inner_.counters(); }
  [[nodiscard]] const std::string& last_send_error() const override {
    return inner_.last_send_error();
  }
  /// Sees frames that leave before the faults have their way, and those that arrive after it.
  void set_tap(Tap* tap) override;
  void observe(Observer* observer) override {
    faults_.observe(observer);
    inner_.observe(observer);
  }
  void abandon() override { inner_.abandon(); }

 private:
  /// What the inner wire sends was seen before.
  class Arrivals final : public Tap {
   public:
    void follow(Tap* tap) { tap_ = tap; }
    void sending() override {}
    void sent(const packet::Flow&, std::span<const std::uint8_t>, std::size_t, unsigned) override {}
    void received(const Train& train, unsigned interface) override {
      tap_->received(train, interface);
    }
    void flushed() override { tap_->flushed(); }

   private:
    Tap* tap_ = nullptr;
  };

  static constexpr std::size_t kMaxRefused = 1024;
  /// For frames that the inner wire refused, though its descriptor tells as well.
  static constexpr Duration kRetryPause = std::chrono::milliseconds{1};

  void admit_waiting(Instant now);
  void release_due(Instant now);

  Wire& inner_;
  Faults faults_;
  std::span<std::uint8_t> room_;
  std::vector<Faults::Frame> waiting_;  // for the next flush()
  packet::Flow reserved_flow_;
  Qpn reserved_to_;
  std::size_t reserved_ = 0;           // bytes, ICRC included; 0: none
  bool full_ = false;                  // the line, or the memory that may be on its way
  std::deque<Faults::Frame> refused_;  // due, and their paths are full
  Instant retry_at_ = kNever;
  Tap* tap_ = nullptr;
  Arrivals arrivals_;
};

}  // namespace verbena::wire
