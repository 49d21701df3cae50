#pragma once

// RoCEv2 over plain UDP sockets. See docs/decisions for steering, source ports and the registry.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "registry/registry.h"
#include "system/fd.h"
#include "wire/network.h"
#include "wire/udp/demultiplexer.h"
#include "wire/udp/receive_addresses.h"
#include "wire/udp/receiver.h"
#include "wire/udp/send_sockets.h"
#include "wire/udp/transmitter.h"
#include "wire/udp/undelivered_reader.h"

namespace verbena::wire {

class UdpWire final : public Network, registry::Watcher {
 public:
  /// Bytes of `buffers` that create() needs.
  static constexpr std::size_t kBufferBytes = 4u << 20;

  /// `buffers` is memory for frames in both directions; the host chooses where it lies (safe copies
  /// want it in a memfd). `registry` outlives the wire.
  static Result<std::unique_ptr<UdpWire>> create(registry::Registry& registry,
                                                 std::span<std::uint8_t> buffers);
  ~UdpWire() override;
  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;

  // packet::FrameSink: frames are gathered into batches of one flow.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn to,
                                                std::size_t size) override {
    return transmitter_.reserve(flow, to, size);
  }
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, Qpn to, std::size_t size,
                                                std::size_t count) override {
    return transmitter_.reserve_many(flow, to, size, count);
  }
  void commit() override { transmitter_.commit(); }
  [[nodiscard]] bool full() const override { return transmitter_.full(); }

  // Wire
  [[nodiscard]] WireId id() const override { return WireId::udp; }
  [[nodiscard]] bool send_sealed(const packet::Flow& flow, Qpn to,
                                 std::span<const std::uint8_t> frame) override {
    return transmitter_.send_sealed(flow, to, frame);
  }
  [[nodiscard]] Departure departure_of(const packet::Flow& flow) override {
    return transmitter_.departure_of(flow);
  }
  void flush() override { transmitter_.flush(); }
  std::size_t receive(DatagramSink& sink) override;
  /// What networks say of frames that reached nobody.
  void serve_control(DatagramSink& sink) override;
  /// Frames of ours that another process got.
  void message(const registry::PeerMessage& message, DatagramSink& sink) override;
  [[nodiscard]] Instant next_deadline() const override { return kNever; }
  [[nodiscard]] Descriptors descriptors() const override {
    return {.data = data_epoll_.get(), .control = control_epoll_.get()};
  }
  [[nodiscard]] const WireCounters& counters() const override { return counters_; }
  [[nodiscard]] const std::string& last_send_error() const override {
    return transmitter_.last_error();
  }
  void set_tap(Tap* tap) override;
  void observe(Observer* observer) override { demultiplexer_.observe(observer); }
  void abandon() override;

  // Network
  Status open_address(const LocalAddress& local) override;
  [[nodiscard]] std::uint32_t receive_buffer() const override {
    return addresses_.receive_buffer();
  }
  Status join(const LocalAddress& group) override { return addresses_.join(group); }
  void leave(const LocalAddress& group) override { addresses_.leave(group); }
  Result<std::uint16_t> source_port(const IpAddress& address, Qpn qpn) override {
    return sockets_.port_for(address, qpn);
  }
  Result<std::uint16_t> management_port(const IpAddress& address) override;
  bool hand_over(const packet::Datagram& d, std::uint32_t slot) override {
    return demultiplexer_.hand_over(d, slot);
  }

 private:
  UdpWire(registry::Registry& registry, std::span<std::uint8_t> buffers, Fd data, Fd control);

  // registry::Watcher
  void members_changed() override { addresses_.renew_groups(); }
  void listeners_changed() override { addresses_.attach_groups(); }

  registry::Registry& registry_;
  WireCounters counters_;
  bool abandoned_ = false;
  Fd data_epoll_;
  Fd control_epoll_;
  SendSockets sockets_;
  Receiver receiver_;
  Transmitter transmitter_;
  ReceiveAddresses addresses_;
  Demultiplexer demultiplexer_;
  UndeliveredReader undelivered_;
  Tap* tap_ = nullptr;
};

}  // namespace verbena::wire
