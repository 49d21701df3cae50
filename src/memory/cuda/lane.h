#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "memory/cuda/driver.h"
#include "memory/dma.h"

namespace verbena::memory::cuda {

/// Copies between frames and the memory of one context, in order, on a stream of our own: the
/// program's streams, and above all the default one, may wait for what we are about to bring.
///
/// Copies are started; synchronize() waits. Those of frames need no work of the CPU where their
/// mapping could be pinned (system/frame_mappings.h); elsewhere the driver copies them twice.
class Lane {
 public:
  /// ENODEV: the driver refuses.
  static verbena::Result<Lane> open(const Driver& driver, Context context);
  /// False: its context was destroyed or reset, and the stream with it.
  [[nodiscard]] bool is_alive() const { return look_up(*driver_, mark_).buffer == mark_id_; }

  // False: the driver refuses, or it isn't alive.

  [[nodiscard]] bool copy_out(std::span<std::uint8_t> to, DevicePointer from);
  [[nodiscard]] bool copy_in(DevicePointer to, std::span<const std::uint8_t> from);
  /// Equal parts of frames, to or from one place after another.
  [[nodiscard]] bool copy_out(const FrameParts& to, DevicePointer from);
  [[nodiscard]] bool copy_in(DevicePointer to, const std::uint8_t* first, std::size_t size,
                             std::size_t stride, std::size_t count);
  /// Not before what was started is in its place. 1, 2, 4 or 8 bytes, aligned: seen as one.
  [[nodiscard]] bool put_last(DevicePointer to, std::span<const std::uint8_t> word);
  [[nodiscard]] bool synchronize();

 private:
  Lane(const Driver& driver, Context context) : driver_{&driver}, context_{context} {}

  template <typename Call>
  [[nodiscard]] bool in_context(const Call& call);

  const Driver* driver_;
  Context context_;
  Stream stream_ = nullptr;
  bool can_write_64_ = false;
  // Memory of our own. The driver has no way to ask for a context, and crashes when one that was
  // destroyed is used; but it takes its memory with it, and numbers are never used again.
  DevicePointer mark_ = 0;
  std::uint64_t mark_id_ = 0;
};

}  // namespace verbena::memory::cuda
