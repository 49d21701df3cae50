#pragma once

#include <cstdint>

#include "base/ip_address.h"
#include "base/local_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "packet/frame.h"
#include "wire/wire.h"

namespace verbena::wire {

/// A wire between hosts: it has addresses, groups and source ports.
class Network : public Wire {
 public:
  /// Starts to receive at this address, port 4791. Idempotent. EADDRINUSE with a message that says
  /// who has the port.
  virtual Status open_address(const LocalAddress& local) = 0;
  /// What datagrams wait in until receive(), in truesize; 0: no address is open.
  [[nodiscard]] virtual std::uint32_t receive_buffer() const = 0;

  /// Starts to receive what is sent to (group, 4791) on this interface. Every process that joined
  /// gets a copy. Counted: as many leave() undo it.
  virtual Status join(const LocalAddress& group) = 0;
  virtual void leave(const LocalAddress& group) = 0;

  /// The source port for a queue pair that sends from `address` (open_address() it first). Queue
  /// pairs share ports when there are many.
  virtual Result<std::uint16_t> source_port(const IpAddress& address, Qpn qpn) = 0;
  /// The source port for the next message of QP 1; `address` is open.
  virtual Result<std::uint16_t> management_port(const IpAddress& address) = 0;

  /// Gives a datagram to another process of this host. False: it can't take it now, or is dead.
  virtual bool hand_over(const packet::Datagram& d, std::uint32_t slot) = 0;
};

}  // namespace verbena::wire
