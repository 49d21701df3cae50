#pragma once

#include <cstddef>

#include "packet/frame.h"

namespace verbena::wire {

/// Frames of one flow that arrived as one: what GRO merged, or what a process handed over.
struct Train {
  packet::Datagram whole;   // its bytes are all frames, one behind another
  std::size_t segment = 0;  // bytes of each; the last may have fewer

  /// The train of frames that lies in [offset, offset + size) of this one.
  [[nodiscard]] Train part(std::size_t offset, std::size_t size) const {
    Train t = *this;
    t.whole.bytes = whole.bytes.subspan(offset, size);
    // The kernel numbers the datagrams of a batch 0, 1, 2, …
    t.whole.identification = static_cast<std::uint16_t>(offset / segment);
    t.whole.more = offset + size < whole.bytes.size();
    return t;
  }
};

class TrainSink {
 public:
  virtual void train(const Train& t) = 0;

 protected:
  ~TrainSink() = default;
};

}  // namespace verbena::wire
