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
#include "packet/icrc.h"
#include "packet/mad.h"
#include "wire/fd.h"
#include "wire/registry_name.h"
#include "wire/socket_address.h"
#include "wire/system.h"
#include "wire/udp_wire.h"

namespace verbena::wire::test {

using namespace std::chrono_literals;

/// Test programs that run at the same time must not share an address: the process is in it.
inline IpAddress loopback(std::uint8_t last) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  return IpAddress::v4(
      {127, static_cast<std::uint8_t>(7 + (pid >> 8) % 240), static_cast<std::uint8_t>(pid), last});
}

inline IpAddress loopback_v6() { return *IpAddress::parse("::1"); }

/// There is only one IPv6 loopback address: held by one test program at a time, because a
/// wire that closes takes the frames in its queue with it.
inline Fd hold_loopback_v6() {
  const auto deadline = monotonic_now() + std::chrono::seconds{30};
  while (monotonic_now() < deadline) {
    if (auto claimed = claim_name("verbena-test.loopback6")) return std::move(claimed).value();
    ::poll(nullptr, 0, 5);
  }
  return {};
}

/// The port table is common to all test programs that run at the same time: so is the reason.
inline std::uint16_t test_port(std::uint16_t offset) {
  return static_cast<std::uint16_t>(2000 + (::getpid() * 64 + offset) % 28'000);
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

/// A wire with its memory and its receiver.
struct Station {
  explicit Station(const IpAddress& a, const Middleware& middleware = {})
      : address{a}, memory(UdpWire::kBufferBytes) {
    auto created = UdpWire::create(memory, middleware);
    if (!created) throw std::runtime_error(created.error().message);
    wire = std::move(created).value();
    if (auto opened = wire->open_address(a, 0); !opened) {
      throw std::runtime_error(opened.error().message);
    }
    sink.buffers = memory;
  }

  [[nodiscard]] Qpn qpn(std::uint32_t index = 0x11) const { return qpn_of(wire->slot(), index); }

  [[nodiscard]] packet::Flow flow_to(const IpAddress& destination, std::uint32_t qp_index = 0x11) {
    auto port = wire->source_port(address, qpn(qp_index));
    EXPECT_TRUE(port.ok());
    return {.source = address, .destination = destination, .source_port = *port};
  }

  bool send(const packet::Flow& flow, const std::vector<std::uint8_t>& frame) {
    const auto room = wire->reserve(flow, frame.size());
    if (room.size() != frame.size()) return false;
    std::copy(frame.begin(), frame.end(), room.begin());
    wire->commit();
    return true;
  }

  /// nullopt: it can't have the port.
  std::optional<PortId> listen(const PortBinding& port) {
    const auto bound = wire->bind_port(port);
    if (!bound || !wire->listen_port(bound->id)) return std::nullopt;
    return bound->id;
  }

  void turn() {
    wire->serve_control(sink);
    while (wire->receive(sink) > 0) {
    }
  }

  [[nodiscard]] const WireCounters& counters() const { return wire->counters(); }

  IpAddress address;
  std::vector<std::uint8_t> memory;
  Collector sink;
  std::unique_ptr<UdpWire> wire;
};

using Stations = std::vector<Station*>;

/// False: no descriptor became readable within `patience`.
inline bool turn_all(const Stations& stations, std::chrono::milliseconds patience) {
  std::vector<pollfd> fds;
  for (auto* s : stations) {
    fds.push_back({s->wire->data_fd(), POLLIN, 0});
    fds.push_back({s->wire->control_fd(), POLLIN, 0});
  }
  const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(patience.count()));
  for (auto* s : stations) s->turn();
  return ready > 0;
}

/// Drives the stations until `done`, at most 5 s.
inline bool run_until(const Stations& stations, const std::function<bool()>& done) {
  const auto deadline = monotonic_now() + 5s;
  while (!done()) {
    if (monotonic_now() > deadline) return false;
    turn_all(stations, 20ms);
  }
  return true;
}

/// Drives the stations until nothing has arrived for a while: probes answered, programs attached.
inline void settle(const Stations& stations) {
  while (turn_all(stations, 30ms)) {
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
