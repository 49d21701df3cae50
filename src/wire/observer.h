#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "packet/frame.h"

namespace verbena::wire {

/// What a network does to a frame.
enum class Fault : std::uint8_t { drop, duplicate, reorder, corrupt };

[[nodiscard]] constexpr std::string_view name_of(Fault f) {
  switch (f) {
    case Fault::drop:
      return "drop";
    case Fault::duplicate:
      return "duplicate";
    case Fault::reorder:
      return "reorder";
    case Fault::corrupt:
      return "corrupt";
  }
  return "?";
}

/// Is told of frames that don't pass a wire as they should. (A Tap sees all of them.) Called in the
/// middle of things: it may look, but not call back.
class Observer {
 public:
  /// A frame that arrived; `reason` is the name of its counter.
  virtual void dropped(std::string_view reason, const packet::Datagram& d) = 0;
  /// A frame that leaves, as it was before; ICRC included.
  virtual void struck(Fault what, std::span<const std::uint8_t> frame) = 0;

 protected:
  ~Observer() = default;
};

}  // namespace verbena::wire
