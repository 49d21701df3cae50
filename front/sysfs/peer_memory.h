#pragma once

// Where programs look whether a device can reach GPU memory by its pointer: NCCL and UCX register
// GPU memory only where one of these kernel modules is.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "front/sysfs/attribute.h"

namespace verbena::front::sysfs {

/// Below a folder of nvidia_peermem or of its predecessors. The parts of an absolute path.
[[nodiscard]] bool within_peer_memory(std::span<const std::string_view> parts);

/// The version that a module would have, or nullopt: no GPU is here, or the program sees devices of
/// hardware, which can't reach its memory so. Under a KernelView.
[[nodiscard]] std::optional<std::string> peer_memory_version();

}  // namespace verbena::front::sysfs
