#pragma once

// QP 1, the general services interface: carries the connection manager's messages.

#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "cm/route.h"
#include "host/observation/trace.h"
#include "packet/frame.h"

namespace verbena::host {

/// A datagram to QP 1. Its bytes lie in the datagram. nullopt: not a management datagram.
[[nodiscard]] std::optional<cm::IncomingMad> mad_of(const packet::Datagram& datagram);

class Gsi {
 public:
  /// nullptr: nobody.
  void observe(Trace* trace) { trace_ = trace; }

  /// False: no room now.
  bool send(const cm::OutgoingMad& mad, std::uint16_t source_port, packet::FrameSink& sink);

 private:
  Psn next_{};
  Trace* trace_ = nullptr;
};

}  // namespace verbena::host
