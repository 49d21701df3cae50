#pragma once

// Wires on loopback addresses, and the means to drive them: everything waits on descriptors
// with a deadline, nothing sleeps.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "packet/bth.h"
#include "packet/icrc.h"
#include "packet/mad.h"
#include "registry/names.h"
#include "registry/registry.h"
#include "system/fd.h"
#include "system/monotonic_now.h"
#include "tests/support/child_peer.h"
#include "tests/support/peers.h"
#include "wire/capture.h"
#include "wire/faulty_wire.h"
#include "wire/udp/socket_address.h"
#include "wire/udp/udp_wire.h"

namespace verbena::wire::test {

using namespace verbena::test;

inline IpAddress loopback_v6() { return *IpAddress::parse("::1"); }

/// There is only one IPv6 loopback address: held by one test program at a time, because a
/// wire that closes takes the frames in its queue with it.
inline Fd hold_loopback_v6() {
  const auto deadline = monotonic_now() + std::chrono::seconds{30};
  while (monotonic_now() < deadline) {
    if (auto claimed = registry::claim_name("verbena-test.loopback6"))
      return std::move(claimed).value();
    ::poll(nullptr, 0, 5);
  }
  return {};
}

inline Qpn qpn_of(std::uint32_t slot, std::uint32_t index) {
  return Qpn{(slot << Qpn::kIndexBits) | index};
}

/// A frame without ICRC: a BTH that carries the QPN, and bytes that follow from `seed`.
inline std::vector<std::uint8_t> frame_to(Qpn qpn, std::size_t size, std::uint8_t seed) {
  std::vector<std::uint8_t> frame(size);
  for (std::size_t i = 0; i < size; ++i) frame[i] = static_cast<std::uint8_t>(seed + i * 7);
  frame[0] = 0x04;  // RC SEND only
  store_be24(&frame[5], qpn.value());
  return frame;
}

struct Received {
  packet::Datagram headers;         // its bytes are gone
  std::vector<std::uint8_t> frame;  // without ICRC
};

class Collector final : public DatagramSink {
 public:
  void datagram(const packet::Datagram& d) override {
    lies_in_buffers = lies_in_buffers && d.bytes.data() >= buffers.data() &&
                      d.bytes.data() + d.bytes.size() <= buffers.data() + buffers.size();
    Received r{d, {d.bytes.begin(), d.bytes.end() - 4}};
    r.headers.bytes = {};
    frames.push_back(std::move(r));
  }
  void management(const packet::Datagram& d) override { datagram(d); }

  void undelivered(const Undelivered& u) override {
    undelivered_frames.push_back(
        {u.source, u.destination, u.code, {u.bytes.begin(), u.bytes.end()}});
  }

  struct Back {
    IpAddress source;
    IpAddress destination;
    int code;
    std::vector<std::uint8_t> bytes;
  };

  std::span<const std::uint8_t> buffers;
  bool lies_in_buffers = true;
  std::vector<Received> frames;
  std::vector<Back> undelivered_frames;
};

/// What stands between a wire and its users.
struct Middleware {
  std::optional<settings::FaultSpec> faults;  // of frames that leave
  std::string capture;                        // a file; empty: none
};

/// A wire with its memory, its place in the registry, and its receiver.
class Station final : registry::Visitors {
 public:
  explicit Station(const IpAddress& a, const Middleware& middleware = {})
      : address{a}, memory(UdpWire::kBufferBytes + registry::Registry::kMessageBytes) {
    const std::span<std::uint8_t> bytes = memory;
    registry = must(registry::Registry::join(bytes.subspan(UdpWire::kBufferBytes)));
    wire = must(UdpWire::create(*registry, bytes.first(UdpWire::kBufferBytes)));
    if (middleware.faults) {
      room_.resize(FaultyWire::kRoomBytes);
      faulty = std::make_unique<FaultyWire>(*wire, *middleware.faults, room_);
    }
    if (!middleware.capture.empty()) {
      capture = must(Capture::open(middleware.capture));
      out().set_tap(capture.get());
    }
    if (auto opened = wire->open_address({a, 0}); !opened) {
      throw std::runtime_error(opened.error().message);
    }
    sink.buffers = memory;
  }

  [[nodiscard]] Wire& out() { return faulty ? static_cast<Wire&>(*faulty) : *wire; }
  [[nodiscard]] std::uint32_t slot() const { return registry->slot(); }
  [[nodiscard]] Qpn qpn(std::uint32_t index = 0x11) const { return qpn_of(slot(), index); }

  [[nodiscard]] packet::Flow flow_to(const IpAddress& destination, std::uint32_t qp_index = 0x11) {
    auto port = wire->source_port(address, qpn(qp_index));
    EXPECT_TRUE(port.ok());
    return {.source = address, .destination = destination, .source_port = *port};
  }

  bool send(const packet::Flow& flow, const std::vector<std::uint8_t>& frame) {
    const auto room = out().reserve(flow, packet::destination_qpn_of(frame), frame.size());
    if (room.size() != frame.size()) return false;
    std::copy(frame.begin(), frame.end(), room.begin());
    out().commit();
    return true;
  }
  void flush() { out().flush(); }

  /// nullopt: it can't have the port.
  std::optional<registry::PortId> listen(const registry::PortBinding& port) {
    return verbena::test::listen(*registry, port);
  }

  [[nodiscard]] std::vector<int> descriptors() const {
    return {wire->descriptors().data, wire->descriptors().control, registry->fd()};
  }
  void turn() {
    registry->serve(*this);
    wire->serve_control(sink);
    while (wire->receive(sink) > 0) {
    }
  }
  void abandon() {
    wire->abandon();
    registry->abandon();
    capture.reset();
  }

  [[nodiscard]] const WireCounters& counters() const { return wire->counters(); }

  // registry::Visitors
  void message(const registry::PeerMessage& message) override { wire->message(message, sink); }
  registry::Account account(std::uint32_t) override { return {"a station"}; }

  IpAddress address;
  std::vector<std::uint8_t> memory;
  Collector sink;
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<Capture> capture;
  std::unique_ptr<UdpWire> wire;
  std::unique_ptr<FaultyWire> faulty;

 private:
  template <typename T>
  static T must(Result<T> made) {
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }

  std::vector<std::uint8_t> room_;
};

using Stations = std::vector<Station*>;

class ChildStation : public ChildPeer<Station> {
 public:
  ChildStation(const IpAddress& address, const Stations& serve,
               const std::optional<registry::PortBinding>& port = std::nullopt)
      : ChildPeer{[&] { return std::make_unique<Station>(address); }, serve, port} {}
};

/// Also of stations in braces.
inline bool run_until(const Stations& stations, const std::function<bool()>& done) {
  return verbena::test::run_until<Station>(stations, done);
}

/// Drives the stations until nothing has arrived for a while: probes answered, programs attached.
inline void settle(const Stations& stations) {
  while (turn_all<Station>(stations, 30ms)) {
  }
}

/// A plain UDP socket, to send what no wire would.
class RawSender {
 public:
  explicit RawSender(const IpAddress& address) : address_{address} {
    fd_ = Fd{::socket(address.is_v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    SocketAddress own{address, 0, 0};
    EXPECT_EQ(::bind(fd_.get(), own.get(), own.size()), 0);
    socklen_t size = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(fd_.get(), own.get(), &size), 0);
    port_ = own.port();
  }

  void send(const IpAddress& to, std::span<const std::uint8_t> bytes) const {
    const SocketAddress address{to, packet::kRocePort, 0};
    EXPECT_EQ(::sendto(fd_.get(), bytes.data(), bytes.size(), 0, address.get(), address.size()),
              static_cast<ssize_t>(bytes.size()));
  }

  /// With an ICRC for this sender.
  [[nodiscard]] std::vector<std::uint8_t> sealed(const IpAddress& to,
                                                 std::vector<std::uint8_t> frame,
                                                 std::uint16_t identification = 0) const {
    const auto crc = packet::icrc({.source = address_,
                                   .destination = to,
                                   .source_port = port_,
                                   .destination_port = packet::kRocePort,
                                   .identification = identification},
                                  frame);
    frame.resize(frame.size() + 4);
    packet::store_icrc(&frame[frame.size() - 4], crc);
    return frame;
  }

 private:
  IpAddress address_;
  Fd fd_;
  std::uint16_t port_ = 0;
};

}  // namespace verbena::wire::test
