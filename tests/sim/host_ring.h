#pragma once

// A ring of the wire between processes of one host, in plain memory: the real writer and the real
// reader, with what a Link puts around them.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ip_address.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "wire/shm/ring.h"

namespace verbena::sim {

class HostRing {
 public:
  /// It begins with `capacity` bytes, and may grow to `most`.
  HostRing(std::size_t capacity, std::size_t most, std::uint32_t slot, const IpAddress& from,
           const IpAddress& to)
      : slot_{slot},
        from_{from},
        to_{to},
        lines_(most / wire::shm::kAlignment),
        writer_{bytes(), capacity} {}

  [[nodiscard]] packet::FrameRooms reserve(const packet::Flow& flow, std::size_t size,
                                           std::size_t count) {
    const std::size_t bytes = size + packet::kIcrcSize;
    auto rooms = writer_.reserve(bytes, count);
    // It may write again what was read before the reader said so.
    if (rooms.count == 0 && writer_.set_consumed(consumed_)) rooms = writer_.reserve(bytes, count);
    starved = starved || rooms.count == 0;
    if (rooms.count == 0) return {};
    header_ = {.frame = static_cast<std::uint32_t>(bytes),
               .source_port = flow.source_port,
               .traffic_class = flow.traffic_class};
    return {
        {rooms.first, (rooms.count - 1) * rooms.stride + size}, size, rooms.stride, rooms.count};
  }
  void commit() { writer_.commit(header_); }
  /// Twice as large from the next turn on, as a link does that was full. False: it is as large as
  /// may be.
  bool grow() {
    if (2 * writer_.capacity() > bytes().size()) return false;
    writer_.grow(2 * writer_.capacity());
    return true;
  }
  [[nodiscard]] packet::Passage passage() const {
    return {.written = writer_.written(), .taken = consumed_};
  }
  /// False: there was nothing.
  bool publish() { return writer_.publish(); }

  [[nodiscard]] bool ready() const { return reader_.ready(); }
  [[nodiscard]] bool broken() const { return reader_.broken(); }
  [[nodiscard]] std::optional<packet::Datagram> next() {
    const auto record = reader_.next();
    if (!record) return std::nullopt;
    const auto size = std::min<std::size_t>(record->header.frame, record->body.size());
    return packet::Datagram{.source = from_,
                            .destination = to_,
                            .source_port = record->header.source_port,
                            .traffic_class = record->header.traffic_class,
                            .bytes = record->body.first(size),
                            .changeable = true,
                            .way = packet::Way::host,
                            .sender = slot_};
  }
  void release() { consumed_ = reader_.position(); }

  [[nodiscard]] std::span<std::uint8_t> bytes() {
    return {lines_.front().bytes, lines_.size() * wire::shm::kAlignment};
  }
  /// The writer waits for room.
  bool starved = false;

 private:
  struct alignas(wire::shm::kAlignment) Line {
    std::uint8_t bytes[wire::shm::kAlignment]{};
  };

  std::uint32_t slot_;  // of the sender
  IpAddress from_;
  IpAddress to_;
  std::vector<Line> lines_;
  wire::shm::RingWriter writer_;
  wire::shm::RingReader reader_{bytes()};
  wire::shm::RecordHeader header_{};
  std::uint64_t consumed_ = 0;
};

}  // namespace verbena::sim
