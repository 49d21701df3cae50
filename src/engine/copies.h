#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/memory_region.h"
#include "memory/dma.h"

namespace verbena::engine {

struct QueuePair;

/// Copies between frames and registered memory, each by the kind of memory that its segment names.
///
/// Those into memory that belong to one message may wait for one another and are then started with
/// one call (docs/decisions/011-copies-in-batches.md). What must not be seen early doesn't wait: a
/// message's last packet, after which somebody is told. Whatever was started is finished before
/// that.
class Copies {
 public:
  Copies();

  // Into frames. Finished on return: the frame can leave. False: memory is gone.

  [[nodiscard]] bool gather(std::span<const Segment> from, std::span<std::uint8_t> into);
  /// From one place on into the parts of many frames.
  [[nodiscard]] static bool gather_parts(const Segment& from, const memory::FrameParts& into);

  // Out of frames.

  /// Copies of this packet may wait: others of its message follow at once.
  void let_wait(QueuePair& qp, bool response) { owner_ = {&qp, response, true}; }
  void hurry() { owner_.may_wait = false; }

  /// Finished on return, unless copies may wait. False: memory is gone; that of this packet or of
  /// an earlier one of its message.
  [[nodiscard]] bool scatter(std::span<const std::uint8_t> from, std::span<const Segment> into);

  /// Starts what waits, and finishes everything.
  [[nodiscard]] bool finish();

  [[nodiscard]] bool waiting() const { return !waiting_.empty(); }
  /// More of them at once would take hardly longer.
  [[nodiscard]] bool worth_more() const {
    return waiting() && kind_->frames_at_once() > kMost;
  }
  // Whose copies wait: those of a response to its READ, or of its peer's request.
  [[nodiscard]] QueuePair* owner() const { return owner_.qp; }
  [[nodiscard]] bool response() const { return owner_.response; }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostKinds = 8;

  struct Owner {
    QueuePair* qp = nullptr;
    bool response = false;
    bool may_wait = false;
  };

  [[nodiscard]] bool start();
  [[nodiscard]] bool note_started(memory::Dma& kind);
  [[nodiscard]] bool finish_started();

  std::vector<memory::Copy> waiting_;  // all of one kind
  memory::Dma* kind_ = nullptr;        // of those
  std::vector<memory::Dma*> started_;  // kinds with pending copies
  Owner owner_;
};

}  // namespace verbena::engine
