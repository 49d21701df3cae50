#pragma once

// A wire between the shards of one test: frames lie in memory, nothing is lost, and each path (the
// way from one address to another) has room for as many frames as the test says.

#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "packet/bth.h"
#include "packet/icrc.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "wire/network.h"
#include "wire/observer.h"

namespace verbena::test {

class MemoryWire;

/// Which wire has an address.
using MemoryNetwork = std::map<IpAddress, MemoryWire*>;

class MemoryWire final : public wire::Network {
 public:
  /// Bytes of `room` that it needs: a frame that leaves and one that arrives.
  static constexpr std::size_t kRoomBytes = std::size_t{2} << 13;

  MemoryWire(MemoryNetwork& network, std::span<std::uint8_t> room)
      : network_{network},
        out_{room.first(kRoomBytes / 2)},
        in_{room.subspan(kRoomBytes / 2, kRoomBytes / 2)},
        arrived_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
    if (!arrived_) throw std::runtime_error{"eventfd"};
  }
  ~MemoryWire() override {
    std::erase_if(network_, [this](const auto& entry) { return entry.second == this; });
  }
  MemoryWire(const MemoryWire&) = delete;
  MemoryWire& operator=(const MemoryWire&) = delete;

  /// So many frames to `destination` may wait there; any number, if nobody says.
  void limit(const IpAddress& destination, std::size_t frames) { limits_[destination] = frames; }
  /// How often a path was full.
  [[nodiscard]] unsigned refusals() const { return refusals_; }

  // packet::FrameSink
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn, std::size_t size) override {
    if (!has_room(flow)) {
      ++refusals_;
      return {};
    }
    flow_ = flow;
    return reserved_ = out_.first(size);
  }
  void commit() override {
    packet::Flow flow = flow_;
    flow.source_port = departure_of(flow).source_port;
    std::vector<std::uint8_t> frame(reserved_.begin(), reserved_.end());
    frame.resize(frame.size() + packet::kIcrcSize);
    const packet::IcrcHeaders headers{.source = flow.source,
                                      .destination = flow.destination,
                                      .source_port = flow.source_port,
                                      .destination_port = packet::kRocePort,
                                      .identification = 0};
    packet::store_icrc(&frame[reserved_.size()], packet::icrc(headers, reserved_));
    deliver(flow, std::move(frame));
  }
  bool full() const override { return false; }

  // wire::Wire
  wire::WireId id() const override { return wire::WireId::udp; }
  bool send_sealed(const packet::Flow& flow, Qpn, std::span<const std::uint8_t> frame) override {
    if (!has_room(flow)) return false;
    deliver(flow, {frame.begin(), frame.end()});
    return true;
  }
  wire::Departure departure_of(const packet::Flow& flow) override {
    return {flow.source_port != 0 ? flow.source_port : kPort, 1};
  }
  void flush() override {}
  std::size_t receive(wire::DatagramSink& sink) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = kernel::read(arrived_.get(), &count, sizeof count);
    const std::size_t frames = waiting();
    for (std::size_t i = 0; i < frames; ++i) take(next(), sink);
    sink.no_more();
    return frames;
  }
  void serve_control(wire::DatagramSink&) override {}
  void message(const registry::PeerMessage&, wire::DatagramSink&) override {}
  Instant next_deadline() const override { return kNever; }
  bool arrived() const override {
    if (while_locked) std::exchange(while_locked, nullptr)();
    return false;
  }
  bool may_sleep() override {
    if (while_locked) std::exchange(while_locked, nullptr)();
    return true;
  }
  /// Called once by arrived() or may_sleep().
  mutable std::function<void()> while_locked;
  wire::Descriptors descriptors() const override { return {.data = arrived_.get()}; }
  const wire::WireCounters& counters() const override { return counters_; }
  const std::string& last_send_error() const override { return no_error_; }
  void set_tap(wire::Tap*) override {}
  void observe(wire::Observer* observer) override { observer_ = observer; }
  void abandon() override { arrived_.reset(); }

  // wire::Network
  Status open_address(const LocalAddress& local) override {
    network_[local.address] = this;
    return Ok{};
  }
  std::uint32_t receive_buffer() const override { return 1u << 20; }
  Status join(const LocalAddress&) override { return Ok{}; }
  void leave(const LocalAddress&) override {}
  Result<std::uint16_t> source_port(const IpAddress&, Qpn) override { return kPort; }
  Result<std::uint16_t> management_port(const IpAddress&) override { return kPort; }
  bool hand_over(const packet::Datagram&, std::uint32_t) override { return false; }

 private:
  static constexpr std::uint16_t kPort = 0xC000;

  struct Frame {
    packet::Flow flow;
    std::vector<std::uint8_t> bytes;
  };

  [[nodiscard]] MemoryWire* peer_at(const IpAddress& address) const {
    const auto found = network_.find(address);
    return found != network_.end() ? found->second : nullptr;
  }
  [[nodiscard]] bool has_room(const packet::Flow& flow) const {
    const auto limit = limits_.find(flow.destination);
    const MemoryWire* const peer = peer_at(flow.destination);
    return limit == limits_.end() || peer == nullptr || peer->waiting() < limit->second;
  }
  void deliver(const packet::Flow& flow, std::vector<std::uint8_t> frame) {
    ++counters_.frames_sent;
    MemoryWire* const peer = peer_at(flow.destination);
    if (peer == nullptr) return;
    {
      const std::lock_guard held{peer->inbox_mutex_};
      peer->inbox_.push_back({flow, std::move(frame)});
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = kernel::write(peer->arrived_.get(), &one, sizeof one);
  }
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard held{inbox_mutex_};
    return inbox_.size();
  }
  Frame next() {
    const std::lock_guard held{inbox_mutex_};
    Frame frame = std::move(inbox_.front());
    inbox_.pop_front();
    return frame;
  }
  void take(const Frame& frame, wire::DatagramSink& sink) {
    const auto body = std::span{frame.bytes}.first(frame.bytes.size() - packet::kIcrcSize);
    const packet::IcrcHeaders headers{.source = frame.flow.source,
                                      .destination = frame.flow.destination,
                                      .source_port = frame.flow.source_port,
                                      .destination_port = packet::kRocePort,
                                      .identification = 0};
    if (packet::icrc(headers, body) != packet::load_icrc(&frame.bytes[body.size()])) {
      ++counters_.icrc_errors;
      if (observer_ != nullptr) {
        observer_->dropped("icrc_errors", {.source = frame.flow.source,
                                           .destination = frame.flow.destination,
                                           .source_port = frame.flow.source_port,
                                           .bytes = frame.bytes});
      }
      return;
    }
    ++counters_.frames_received;
    std::ranges::copy(frame.bytes, in_.begin());
    const packet::Datagram d{.source = frame.flow.source,
                             .destination = frame.flow.destination,
                             .source_port = frame.flow.source_port,
                             .traffic_class = frame.flow.traffic_class,
                             .hop_limit = 64,
                             .destination_qpn = packet::destination_qpn_of(frame.bytes),
                             .bytes = in_.first(frame.bytes.size())};
    if (d.destination_qpn == packet::kGsiQpn) {
      sink.management(d);
    } else {
      sink.datagram(d);
    }
  }

  MemoryNetwork& network_;
  std::span<std::uint8_t> out_;
  std::span<std::uint8_t> in_;
  Fd arrived_;
  mutable std::mutex inbox_mutex_;  // two shards may run in threads of their own
  std::deque<Frame> inbox_;
  std::map<IpAddress, std::size_t> limits_;
  unsigned refusals_ = 0;
  packet::Flow flow_;
  std::span<std::uint8_t> reserved_;
  wire::WireCounters counters_;
  wire::Observer* observer_ = nullptr;
  std::string no_error_;
};

}  // namespace verbena::test
