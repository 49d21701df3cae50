#pragma once

// What passes between the engine and the wire.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ip_address.h"
#include "base/numbers.h"

namespace verbena::packet {

inline constexpr std::uint16_t kRocePort = 4791;

/// How packets of a flow travel.
enum class Way : std::uint8_t {
  network,  // they may be lost, and come in another order
  host,     // between processes of one host: nothing is lost, and who is too fast is held back
};

/// Why packets take Way::network.
enum class Detour : std::uint8_t {
  unknown,        // nobody has said, or there is no other way
  none,           // they don't: they take Way::host
  other_host,     // no process of this user in this network namespace receives there
  peer_declines,  // its settings, or it has no memory or descriptors for its end
  no_memory,      // or no descriptors, at this end
  capture,        // this end captures
  faults,         // this end has faults
  settings,       // this end's settings allow nothing else
};

/// Which way, and why.
struct Course {
  Way way = Way::network;
  Detour detour = Detour::unknown;

  friend constexpr bool operator==(Course, Course) = default;
};

/// The way of a queue pair's packets. Everything of the IP and UDP headers that the sender decides.
struct Flow {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;  // 0: any that frames from `source` leave from
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;  // 0: the route's default
  Way way = Way::network;

  friend constexpr bool operator==(const Flow&, const Flow&) = default;
};

/// A UDP payload that arrived, and what is known of the headers before it.
struct Datagram {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint16_t identification = 0;     // of IPv4: what it is if the sender is one of us
  Qpn destination_qpn{};                // as destination_qpn_of() finds it in the bytes
  std::span<const std::uint8_t> bytes;  // BTH … ICRC
  bool more = false;         // another one comes at once, and these bytes stay until then
  bool changeable = false;   // another process may change the bytes at any time
  Way way = Way::network;    // that it came
  std::uint32_t sender = 0;  // Way::host: slot of the process that sent it
};

/// How far a path and the one back have come, in bytes since they are there.
struct Passage {
  std::uint64_t written = 0;
  std::uint64_t taken = 0;      // by the receiver of what was written: it is alive
  std::uint64_t received = 0;   // of what the receiver has written to us
  std::uint64_t back_room = 0;  // so much may lie on the way back
  bool unread = false;          // something does
  bool unopened = false;        // the receiver has yet to find the path
};

/// Room for frames of one size, one behind another.
struct FrameRooms {
  std::span<std::uint8_t> bytes;  // from the first frame's first byte to the last one's last
  std::size_t size = 0;           // of each
  std::size_t stride = 0;         // from one to the next
  std::size_t count = 0;

  [[nodiscard]] std::span<std::uint8_t> operator[](std::size_t i) const {
    return bytes.subspan(i * stride, size);
  }
};

/// Takes frames from the engine. The wire adds the ICRC, because only it knows the IP
/// identification that each packet of a batch will get. What can be full is a path: the way to one
/// destination.
class FrameSink {
 public:
  /// The way that frames of this flow to the queue pair `to` can take. Whoever sends keeps to one
  /// while packets of his are on theirs.
  [[nodiscard]] virtual Course choose_way([[maybe_unused]] const Flow& flow,
                                          [[maybe_unused]] Qpn to) {
    return {};
  }
  /// Room for a frame of exactly `size` bytes, ICRC left out, to the queue pair `to`. Empty: its
  /// path has no room now; other paths may have.
  [[nodiscard]] virtual std::span<std::uint8_t> reserve(const Flow& flow, Qpn to,
                                                        std::size_t size) = 0;
  /// The same for at most `count` frames: commit() them one by one. The next reserve forgets those
  /// that were not.
  [[nodiscard]] virtual FrameRooms reserve_many(const Flow& flow, Qpn to, std::size_t size,
                                                [[maybe_unused]] std::size_t count) {
    const auto room = reserve(flow, to, size);
    return {room, size, size, room.empty() ? 0u : 1u};
  }
  /// How far a path of Way::host has come.
  [[nodiscard]] virtual Passage passage([[maybe_unused]] const Flow& flow,
                                        [[maybe_unused]] Qpn to) const {
    return {};
  }
  /// The next frame in the room that was reserved last is complete and leaves.
  virtual void commit() = 0;
  /// Somebody waits for the next frame: it leaves when it is committed, if that costs nothing.
  virtual void hurry() {}
  /// No path has room: after a reserve in vain, there is no use in trying others.
  [[nodiscard]] virtual bool full() const = 0;

 protected:
  ~FrameSink() = default;
};

}  // namespace verbena::packet
