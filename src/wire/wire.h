#pragma once

// How frames move. A wire takes frames from the engine path by path, and gives those that arrive to
// its owner.
//
//   Wire ◄── Network ◄── UdpWire (udp/)        reaches other hosts
//     ▲ ▲
//     │ └── ShmWire (shm/)                     reaches processes of this host
//     └──── FaultyWire                         around any wire: loses, delays, damages
//
//   Tap: told of each frame by any wire (Capture writes them to a file)
//   Observer: told of frames that are dropped or damaged (the trace)

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/time.h"
#include "packet/frame.h"
#include "registry/peers.h"
#include "wire/undelivered.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

class Observer;
class Tap;

/// Names a wire to the same wire of another process: messages between them carry it.
enum class WireId : std::uint8_t { udp = 0, shm = 1 };

/// The owner of a wire: gets each frame that is meant for this process, undamaged.
class DatagramSink {
 public:
  virtual void datagram(const packet::Datagram& d) = 0;
  /// One to QP 1.
  virtual void management(const packet::Datagram& d) = 0;
  /// Behind one that said that more would follow: none does.
  virtual void no_more() {}
  /// What it was given is being copied by a device: until no_more(), it may as well get the next.
  [[nodiscard]] virtual bool is_copying() const { return false; }
  /// A frame from management_port() reached nobody, as the network says. Not every network does.
  virtual void undelivered(const Undelivered&) {}
  /// The rings between this process and a live one end. What they sent each other lately is lost,
  /// in both directions.
  virtual void rings_lost([[maybe_unused]] std::uint32_t slot) {}

 protected:
  ~DatagramSink() = default;
};

/// Descriptors to wait on. -1: there is none.
struct Descriptors {
  int bell = -1;  // each time that it becomes readable (EPOLLET), receive() may have something to
                  // do; it need not be read
  int data = -1;  // readable when receive() has something to do, or a full path has room again
  int control = -1;  // readable when serve_control() has something to do
};

/// Where the frames of a flow leave.
struct Departure {
  std::uint16_t source_port = 0;
  unsigned interface = 0;  // its index
};

/// Not thread-safe: the shard lock guards every call but descriptors().
class Wire : public packet::FrameSink {
 public:
  virtual ~Wire() = default;

  [[nodiscard]] virtual WireId id() const = 0;
  /// A frame whose ICRC is there already, right or not, as for identification 0. Leaves with the
  /// next flush(). False: no room on its path.
  [[nodiscard]] virtual bool send_sealed(const packet::Flow& flow, Qpn to,
                                         std::span<const std::uint8_t> frame) = 0;
  [[nodiscard]] virtual Departure departure_of(const packet::Flow& flow) = 0;
  /// Sends what was committed, as far as paths have room.
  virtual void flush() = 0;

  /// Takes what has arrived, a bounded amount. Returns the number of frames seen. Their bytes hold
  /// until the sink's function returns, unless the datagram says more.
  virtual std::size_t receive(DatagramSink& sink) = 0;
  virtual void serve_control(DatagramSink& sink) = 0;

  // Wires that can tell without a system call that something has arrived ring their bell only for
  // owners that sleep.
  /// receive() has something to do, as far as one can tell.
  [[nodiscard]] virtual bool arrived() const { return false; }
  /// Before its owner sleeps on the descriptors. False: receive() first.
  [[nodiscard]] virtual bool may_sleep() { return true; }
  /// Its owner doesn't sleep any more.
  virtual void woken() {}
  /// A message of this wire's in another process, by way of the registry.
  virtual void message(const registry::PeerMessage& message, DatagramSink& sink) = 0;

  /// When flush() has to be called, though nothing happens before.
  [[nodiscard]] virtual Instant next_deadline() const = 0;
  [[nodiscard]] virtual Descriptors descriptors() const = 0;

  [[nodiscard]] virtual const WireCounters& counters() const = 0;
  /// Why a frame was refused last, with the numbers; empty: none was. Grows old silently: look at
  /// it when counters().send_errors has grown.
  [[nodiscard]] virtual const std::string& last_send_error() const = 0;
  /// nullptr: nobody. It outlives the wire.
  virtual void set_tap(Tap* tap) = 0;
  /// nullptr: nobody. It outlives the wire.
  virtual void observe(Observer* observer) = 0;

  /// In a forked child: closes every descriptor, tells nobody. The object is then only good for
  /// destruction.
  virtual void abandon() = 0;
};

}  // namespace verbena::wire
