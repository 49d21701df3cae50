#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "packet/frame.h"
#include "wire/train.h"

namespace verbena::wire {

/// Sees the frames that pass a wire, ICRC included, whatever becomes of them.
class Tap {
 public:
  /// The frames of the next calls of sent() leave from now on: a peer may have one before sent().
  virtual void sending() = 0;
  /// Frames of one flow that leave as one batch, `segment` bytes each. In a batch, the IPv4
  /// identification counts from 0.
  virtual void sent(const packet::Flow& flow, std::span<const std::uint8_t> frames,
                    std::size_t segment, unsigned interface) = 0;
  virtual void received(const Train& train, unsigned interface) = 0;
  /// After each flush: time to write what was gathered.
  virtual void flushed() = 0;

 protected:
  ~Tap() = default;
};

}  // namespace verbena::wire
