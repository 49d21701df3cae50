#pragma once

// What becomes of each frame that arrived: it is ours, another process', or nobody's.
//
//   train ─► frames ─► probe? ─► ICRC, length ─► destination QPN ─┬─► ours: the sink
//                                                                 ├─► another's: handed over
//                                                                 └─► dropped and counted

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/numbers.h"
#include "packet/frame.h"
#include "registry/registry.h"
#include "wire/observer.h"
#include "wire/train.h"
#include "wire/udp/receive_addresses.h"
#include "wire/wire.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

class Demultiplexer {
 public:
  Demultiplexer(registry::Registry& registry, WireCounters& counters)
      : registry_{registry}, counters_{counters} {}

  /// nullptr: nobody. It outlives this.
  void observe(Observer* observer) { observer_ = observer; }

  /// From the network. Returns how many frames.
  std::size_t arrived(const Train& train, ReceiveAddress& at, DatagramSink& sink);
  /// From another process, which took them for ours.
  void handed_over(const Train& train, unsigned interface, DatagramSink& sink);
  /// False: the process of `slot` can't take it now, or is dead.
  bool hand_over(const packet::Datagram& d, std::uint32_t slot);

 private:
  class Strays;

  /// Delivers a frame of ours and drops a bad one; returns 0. Else the slot that owns it.
  std::uint32_t demultiplex(packet::Datagram d, ReceiveAddress& at, DatagramSink& sink);
  /// False: too short or damaged; it is counted. Else the destination is filled in.
  bool check(packet::Datagram& d, unsigned interface);
  void deliver(const packet::Datagram& d, unsigned interface, DatagramSink& sink);
  /// The port counts it as an error.
  void drop(std::uint64_t WireCounters::*reason, const packet::Datagram& d, unsigned interface);
  void tell_dropped(std::string_view reason, const packet::Datagram& d) const {
    if (observer_ != nullptr) observer_->dropped(reason, d);
  }
  void pass_on(const Train& frames, std::size_t count, std::uint32_t owner, ReceiveAddress& at);

  registry::Registry& registry_;
  WireCounters& counters_;
  Observer* observer_ = nullptr;
};

}  // namespace verbena::wire
