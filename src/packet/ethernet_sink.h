#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/numbers.h"

namespace verbena::packet {

/// Takes whole Ethernet frames, which raw packet queue pairs send.
class EthernetSink {
 public:
  enum class Sent : std::uint8_t {
    yes,
    full,      // no room now; the engine tries again
    too_long,  // for the interface
  };

  /// Room for a frame of that many bytes. Empty: no interface takes one so long.
  [[nodiscard]] virtual std::span<std::uint8_t> room(std::size_t size) = 0;
  /// The frame that now fills the room leaves by the interface of that queue pair.
  [[nodiscard]] virtual Sent send(Qpn from, std::span<const std::uint8_t> frame) = 0;

 protected:
  ~EthernetSink() = default;
};

}  // namespace verbena::packet
