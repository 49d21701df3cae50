#pragma once

#include "packet/bth.h"
#include "packet/frame.h"

namespace verbena::test {

/// A datagram as a wire delivers it: with its destination, unless it is too short to have one.
inline packet::Datagram delivered(packet::Datagram d) {
  if (d.bytes.size() >= packet::Bth::kSize) {
    d.destination_qpn = packet::destination_qpn_of(d.bytes);
  }
  return d;
}

}  // namespace verbena::test
