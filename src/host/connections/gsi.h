#pragma once

// QP 1, the general services interface: carries the connection manager's messages.

#include <cstdint>
#include <optional>
#include <span>

#include "base/psn.h"
#include "cm/route.h"
#include "host/observation/trace.h"
#include "host/wires.h"
#include "packet/frame.h"

namespace verbena::host {

/// A datagram to QP 1. Its bytes lie in the datagram. nullopt: not a management datagram.
[[nodiscard]] std::optional<cm::IncomingMad> mad_of(const packet::Datagram& datagram);

class Gsi {
 public:
  /// nullptr: nobody.
  void observe(Trace* trace) { trace_ = trace; }

  /// nullopt: it reaches nobody. Otherwise, whether it is gone; no room, if it isn't.
  std::optional<bool> send(const cm::OutgoingMad& mad, Wires& wires);

 private:
  bool put(const packet::Flow& flow, Qpn to, std::span<const std::uint8_t> frame, Wires& wires);

  Psn next_{};
  Trace* trace_ = nullptr;
};

}  // namespace verbena::host
