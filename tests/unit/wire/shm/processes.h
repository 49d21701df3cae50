#pragma once

// Processes of one host with rings between them, and strangers that say to them what they like.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "packet/bth.h"
#include "packet/mad.h"
#include "packet/packet.h"
#include "tests/support/peers.h"
#include "wire/shm/offer.h"
#include "wire/shm/shm_wire.h"

namespace verbena::wire::test {

using namespace verbena::test;

inline constexpr auto kShmWire = static_cast<std::uint8_t>(WireId::shm);
/// Of processes that take rings (see shm_wire.cc).
inline constexpr std::uint64_t kTakesRings = 1;

inline Qpn qpn_at(std::uint32_t slot, std::uint32_t index = 0x11) {
  return Qpn{(slot << Qpn::kIndexBits) | index};
}

/// A frame without ICRC: a BTH that carries the QPN, and bytes that follow from `seed`.
inline std::vector<std::uint8_t> frame_for(Qpn qpn, std::size_t size, std::uint8_t seed) {
  std::vector<std::uint8_t> frame(size);
  for (std::size_t i = 0; i < size; ++i) frame[i] = static_cast<std::uint8_t>(seed + i * 7);
  frame[0] = 0x04;  // RC SEND only
  store_be24(&frame[5], qpn.value());
  return frame;
}

struct Arrived {
  packet::Datagram headers;         // its bytes are gone
  std::vector<std::uint8_t> frame;  // without ICRC
};

struct Frames final : DatagramSink {
  void datagram(const packet::Datagram& d) override {
    if (all.size() > 100'000) throw std::runtime_error{"frames without an end"};
    all.push_back(taken(d));
  }
  void management(const packet::Datagram& d) override { managed.push_back(taken(d)); }
  void rings_lost(std::uint32_t slot) override { lost.push_back(slot); }
  static Arrived taken(const packet::Datagram& d) {
    Arrived a{d, {d.bytes.begin(), d.bytes.end() - packet::kIcrcSize}};
    a.headers.bytes = {};
    return a;
  }
  std::vector<Arrived> all;
  std::vector<Arrived> managed;
  std::vector<std::uint32_t> lost;  // slots
};

/// A process with a wire.
class Process final : registry::Visitors {
 public:
  explicit Process(std::uint8_t last) : address{loopback(last)}, memory_(kMessage) {
    registry = must(registry::Registry::join(memory_));
    wire = must(ShmWire::create(*registry));
    wire->open_address({address, 0});
  }
  ~Process() {
    wire.reset();
    registry.reset();
  }

  [[nodiscard]] std::uint32_t slot() const { return registry->slot(); }
  [[nodiscard]] Qpn qpn(std::uint32_t index = 0x11) const { return qpn_at(slot(), index); }
  [[nodiscard]] packet::Flow to(const IpAddress& destination) const {
    return {.source = address,
            .destination = destination,
            .source_port = 0xc000,
            .way = packet::Way::host};
  }
  template <typename Peer>
  [[nodiscard]] Carriage carriage(const Peer& peer) {
    return wire->carriage(to(peer.address), peer.qpn());
  }
  template <typename Peer>
  bool send(const Peer& peer, const std::vector<std::uint8_t>& frame) {
    const auto room = wire->reserve(to(peer.address), peer.qpn(), frame.size());
    if (room.size() != frame.size()) return false;
    std::ranges::copy(frame, room.begin());
    wire->commit();
    return true;
  }

  [[nodiscard]] std::vector<int> descriptors() const { return {registry->fd()}; }
  void serve() { registry->serve(*this); }
  /// How often its bell was rung since the last call.
  [[nodiscard]] std::uint64_t rings() const {
    pollfd bell{wire->descriptors().bell, POLLIN, 0};
    if (::poll(&bell, 1, 0) != 1) return 0;
    std::uint64_t count = 0;
    return ::read(bell.fd, &count, sizeof count) == sizeof count ? count : 0;
  }
  /// Frames have no descriptor that stays readable: look each time.
  void turn() {
    serve();
    while (wire->receive(sink) > 0) {
    }
    wire->flush();
  }
  void abandon() {
    wire->abandon();
    registry->abandon();
  }

  // registry::Visitors
  void message(const registry::PeerMessage& message) override { wire->message(message, sink); }
  registry::Account account(std::uint32_t) override { return {"a process"}; }

  IpAddress address;
  Frames sink;
  std::unique_ptr<registry::Registry> registry;
  std::unique_ptr<ShmWire> wire;

 private:
  static constexpr std::size_t kMessage = registry::Registry::kMessageBytes;

  template <typename T>
  static T must(Result<T> made) {
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(made).value();
  }

  std::vector<std::uint8_t> memory_;
};

/// One in the registry that says to have rings, and does with them what the test says.
class Stranger final : registry::Visitors {
 public:
  explicit Stranger(std::uint8_t last)
      : address{loopback(last)},
        bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
        memory_(registry::Registry::kMessageBytes) {
    auto joined = registry::Registry::join(memory_);
    if (!joined) throw std::runtime_error(joined.error().message);
    registry = std::move(joined).value();
    registry->table().set_traits(slot(), kTakesRings);
    const auto column = registry->table().column_of({address, 0});
    if (!column) throw std::runtime_error{"the table has no room for an address"};
    registry->table().receive_at(*column, slot());
  }

  [[nodiscard]] std::uint32_t slot() const { return registry->slot(); }
  [[nodiscard]] Qpn qpn(std::uint32_t index = 0x11) const { return qpn_at(slot(), index); }
  [[nodiscard]] std::vector<int> descriptors() const { return {registry->fd()}; }
  void turn() { registry->serve(*this); }

  struct Heard {
    shm::Message message;
    std::vector<Fd> descriptors;
  };
  void message(const registry::PeerMessage& message) override {
    const auto said = shm::Message::of(message.bytes);
    ASSERT_TRUE(said);
    auto& h = heard.emplace_back(Heard{*said, {}});
    for (Fd& fd : message.descriptors) {
      if (fd) h.descriptors.push_back(std::move(fd));
    }
  }
  registry::Account account(std::uint32_t) override { return {"a stranger"}; }

  [[nodiscard]] std::size_t count(shm::Message::Kind kind) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(heard, [&](const Heard& h) { return h.message.kind == kind; }));
  }

  bool say(const Process& to, const shm::Message& message, std::vector<int> descriptors = {}) {
    return registry->pass(to.slot(), kShmWire, message.bytes(), {}, descriptors);
  }
  /// A segment of its own, whole and sealed, with this id.
  void offer(const Process& to, std::uint64_t id, std::uint64_t answers = 0) {
    auto made = shm::Segment::create(shm::Link::kRingBytes);
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(say(to, {shm::Message::Kind::offer, slot(), id, answers},
                    {made->descriptor.get(), bell.get()}));
    segment = std::move(made->segment);
    placed_ = 0;
  }
  /// A record in its ring, whatever its header says.
  void put(shm::RecordHeader header, std::span<const std::uint8_t> body, std::size_t at) {
    std::uint8_t* const place = segment.ring().data() + at;
    std::ranges::copy(body, place + sizeof header);
    std::memcpy(place, &header, sizeof header);
  }
  /// A frame from `source` behind those before.
  void publish(const IpAddress& source, const IpAddress& destination,
               std::span<const std::uint8_t> frame) {
    std::vector<std::uint8_t> body;
    for (const auto& end : {source.bytes(), destination.bytes()}) {
      body.insert(body.end(), end.begin(), end.end());
    }
    body.insert(body.end(), frame.begin(), frame.end());
    body.resize(body.size() + packet::kIcrcSize);
    const auto size = shm::record_size(0, body.size());
    put({.size = static_cast<std::uint32_t>(size),
         .frame = static_cast<std::uint32_t>(frame.size() + packet::kIcrcSize),
         .flags = shm::RecordHeader::kAddresses},
        body, placed_);
    placed_ += size;
  }
  /// A frame that comes again and again: behind it the ring begins anew.
  void publish_for_ever(const IpAddress& destination, std::span<const std::uint8_t> frame) {
    placed_ = 0;
    const auto size = shm::record_size(2 * sizeof(IpAddress::Bytes), frame.size() + 4);
    put({.size = 64, .flags = shm::RecordHeader::kWrap}, {}, size);
    publish(address, destination, frame);
  }

  IpAddress address;
  std::unique_ptr<registry::Registry> registry;
  std::vector<Heard> heard;
  shm::Segment segment;
  Fd bell;

 private:
  std::vector<std::uint8_t> memory_;
  std::size_t placed_ = 0;
};

/// Drives all of them until `done`, at most 5 s.
template <typename... Peers>
bool drive(const std::function<bool()>& done, Peers&... peers) {
  const auto deadline = monotonic_now() + 5s;
  for (;;) {
    (peers.turn(), ...);
    if (done()) return true;
    if (monotonic_now() > deadline) return false;
    std::vector<pollfd> fds;
    const auto add = [&](const auto& peer) {
      for (const int fd : peer.descriptors()) fds.push_back({fd, POLLIN, 0});
    };
    (add(peers), ...);
    ::poll(fds.data(), fds.size(), 5);
  }
}

}  // namespace verbena::wire::test
