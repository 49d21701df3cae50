#pragma once

// The files that a kernel driver would show of the device below /sys/class/infiniband/NAME.

#include <optional>
#include <string>
#include <string_view>

#include "host/device.h"

namespace verbena::front::sysfs {

/// The contents of a file without its newline, by its path below the device's folder
/// ("board_id", "ports/1/gids/0"). nullopt: there is no such file.
[[nodiscard]] std::optional<std::string> read_attribute(const host::Device& device,
                                                        std::string_view path);

}  // namespace verbena::front::sysfs
