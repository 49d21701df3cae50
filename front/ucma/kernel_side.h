#pragma once

// The kernel's own rdma_cm device behind an event channel of ours. Ids at addresses of devices that
// are not ours (hardware, the kernel's rxe) live there; their commands are passed on, and their
// events come back through the channel:
//
//   program --write()--> Channel -- command of such an id --> KernelSide --> the kernel
//   program <-GET_EVENT- Channel <------- Ucma <------------- KernelSide <-- the kernel

#include <rdma/rdma_user_cm.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "base/result.h"
#include "host/events/descriptor_watch.h"

namespace verbena::front::ucma {

class KernelSide {
 public:
  /// `watch` tells of events, with `key`.
  static Result<std::unique_ptr<KernelSide>> open(host::DescriptorWatch& watch, std::uint64_t key);
  ~KernelSide();
  KernelSide(const KernelSide&) = delete;
  KernelSide& operator=(const KernelSide&) = delete;

  [[nodiscard]] int fd() const { return fd_; }

  /// One command, `room` bytes for its answer. Its errno is the kernel's.
  [[nodiscard]] Status write(std::uint32_t number, std::span<const std::uint8_t> in,
                             std::size_t room) const;
  template <typename In>
  requires std::is_trivially_copyable_v<In>
  [[nodiscard]] Status command(std::uint32_t number, const In& in, std::size_t room = 0) const {
    return write(number, {reinterpret_cast<const std::uint8_t*>(&in), sizeof in}, room);
  }

  /// nullopt: none waits.
  [[nodiscard]] std::optional<rdma_ucm_event_resp> next_event() const;

 private:
  KernelSide(int fd, const host::DescriptorWatch& watch) : fd_{fd}, watch_{watch} {}

  int fd_;
  const host::DescriptorWatch& watch_;
};

/// Where the handle of the id is in a command. nullopt: not a command of an id that can be passed
/// on.
[[nodiscard]] std::optional<std::size_t> place_of_id(std::uint32_t number);

}  // namespace verbena::front::ucma
