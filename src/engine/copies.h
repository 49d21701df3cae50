#pragma once

#include <span>
#include <vector>

#include "engine/memory.h"

namespace verbena::engine {

struct QueuePair;

/// Copies of payloads into registered memory. Those of one message may wait for one another and
/// are then done with one call (docs/decisions/011-copies-in-batches.md). What must not be seen
/// early doesn't wait: a message's last packet, after which somebody is told.
class Copies {
 public:
  explicit Copies(Dma& dma) : dma_{dma} { waiting_.reserve(kMost); }

  /// Copies of this packet may wait: others of its message follow at once.
  void let_wait(QueuePair& qp, bool response) { owner_ = {&qp, response, true}; }
  void hurry() { owner_.may_wait = false; }

  /// False: memory is gone; that of this packet or of an earlier one of its message.
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from, std::span<const Segment> into);

  /// Does what waits.
  [[nodiscard]] bool finish();

  [[nodiscard]] bool waiting() const { return !waiting_.empty(); }
  // Whose copies wait: those of a response to its READ, or of its peer's request.
  [[nodiscard]] QueuePair* owner() const { return owner_.qp; }
  [[nodiscard]] bool response() const { return owner_.response; }

 private:
  static constexpr std::size_t kMost = 64;

  struct Owner {
    QueuePair* qp = nullptr;
    bool response = false;
    bool may_wait = false;
  };

  Dma& dma_;
  std::vector<Placement> waiting_;
  Owner owner_;
};

}  // namespace verbena::engine
