#pragma once

// RoCEv2 over plain UDP sockets. See docs/decisions for steering, source ports and the registry.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "base/time.h"
#include "packet/frame.h"
#include "settings/fault_spec.h"
#include "wire/faults.h"
#include "wire/port_binding.h"
#include "wire/undelivered.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

class Capture;

/// The owner of a wire: gets each frame that is meant for this process, its ICRC checked.
class DatagramSink {
 public:
  virtual void datagram(const packet::Datagram& d) = 0;
  /// Behind one that said that more would follow: none does.
  virtual void no_more() {}
  /// A frame from management_port() reached nobody, as the network says. Not every network does.
  virtual void undelivered(const Undelivered&) {}
  /// What this process tells another one of the same user of itself: see roll_call.h.
  [[nodiscard]] virtual std::string account() { return {}; }

 protected:
  ~DatagramSink() = default;
};

/// What stands between the engine and the sockets.
struct Middleware {
  std::optional<settings::FaultSpec> faults;  // of frames that leave
  std::string capture;                        // a file; empty: none
};

/// One per process. Not thread-safe: the host's lock guards every call but the two *_fd().
class UdpWire final : public packet::FrameSink {
 public:
  /// Bytes of `buffers` that create() needs.
  static constexpr std::size_t kBufferBytes = 4u << 20;

  /// `buffers` is memory for frames in both directions; the host chooses where it lies
  /// (safe copies want it in a memfd). Joins the registry: claims a slot of QPNs.
  static Result<std::unique_ptr<UdpWire>> create(std::span<std::uint8_t> buffers,
                                                 const Middleware& middleware = {});
  ~UdpWire();

  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;

  /// The slot of this process: QPNs whose slot() is this reach us. Never 0.
  [[nodiscard]] std::uint32_t slot() const;

  /// Starts to receive at (address, 4791). Idempotent. `interface` is its index (the scope
  /// of a link-local address). EADDRINUSE with a message that says who has the port.
  Status open_address(const IpAddress& address, unsigned interface);

  /// What datagrams wait in until receive(), in truesize; 0: no address is open.
  [[nodiscard]] std::uint32_t receive_buffer() const;

  /// Starts to receive what is sent to (group, 4791) on this interface. Every process that joined
  /// gets a copy. Counted: as many leave() undo it.
  Status join(const IpAddress& group, unsigned interface);
  void leave(const IpAddress& group, unsigned interface);

  /// The source port for a queue pair that sends from `address` (open_address() it first):
  /// 0xC000 … 0xFFFF, with a socket bound to it. Queue pairs share ports when there are many.
  Result<std::uint16_t> source_port(const IpAddress& address, Qpn qpn);
  /// The source port for the next message of QP 1; `address` is open.
  Result<std::uint16_t> management_port(const IpAddress& address);

  // Ports of rdma_cm, which all processes of the registry share.
  /// EADDRINUSE: another binding is in the way. EADDRNOTAVAIL: no ephemeral port is free.
  /// ENOMEM: too many are bound.
  Result<BoundPort> bind_port(const PortBinding& wanted);
  /// From now on REQ and SIDR_REQ for it come here. EADDRINUSE: another binding listens there.
  Status listen_port(PortId id);
  void release_port(PortId id);
  /// A connection request (REQ or SIDR_REQ to QP 1) for which no process listens.
  [[nodiscard]] bool nobody_listens(const packet::Datagram& d) const;
  /// … and to whose port a process is bound: it may be about to listen.
  [[nodiscard]] bool is_bound(const packet::Datagram& d) const;
  /// A message about a connection of a process that has died.
  [[nodiscard]] bool owner_is_dead(const packet::Datagram& d) const;
  /// The same request later: another process may have begun to listen. True: it has it now.
  bool pass_to_listener(const packet::Datagram& d);

  // Sending: frames are gathered into batches of one flow; flush() sends what is left.
  [[nodiscard]] std::span<std::uint8_t> reserve(const packet::Flow& flow,
                                                std::size_t size) override;
  [[nodiscard]] packet::FrameRooms reserve_many(const packet::Flow& flow, std::size_t size,
                                                std::size_t count) override;
  void commit() override;
  void flush();
  /// Frames wait because sockets are full. data_fd() becomes readable when they have room
  /// again; receive() or flush() then sends them.
  [[nodiscard]] bool send_waiting() const;
  /// When flush() has to be called, though nothing happens before: faults delay frames.
  [[nodiscard]] Instant next_deadline() const;
  /// When the faults will have let go of what they delay; {}: nothing is there.
  [[nodiscard]] Instant empty_at() const;
  /// Why the kernel refused a frame last, with the numbers; empty: it never did. Grows old
  /// silently: look at it when counters().send_errors has grown.
  [[nodiscard]] const std::string& last_send_error() const;

  /// Takes what has arrived, a bounded amount. Returns the number of frames seen.
  /// The sink's spans lie in `buffers` and hold until it returns.
  std::size_t receive(DatagramSink& sink);
  /// Registry, hand-over and steering upkeep. Call when control_fd() is readable.
  void serve_control(DatagramSink& sink);

  /// Readable when receive() has something to do.
  [[nodiscard]] int data_fd() const;
  /// Readable when serve_control() has something to do.
  [[nodiscard]] int control_fd() const;

  /// In a forked child: closes every descriptor, tells nobody. The object is then only
  /// good for destruction.
  void abandon();

  [[nodiscard]] const WireCounters& counters() const;
  /// nullptr: there are none.
  [[nodiscard]] const Faults* faults() const;
  /// nullptr: there is none.
  [[nodiscard]] const Capture* capture() const;

 private:
  class Impl;
  explicit UdpWire(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace verbena::wire
