#pragma once

// The files that a kernel driver would show of the device below /sys/class/infiniband/NAME.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/device.h"

namespace verbena::front::sysfs {

/// The contents of a file without its newline, by its path below the device's folder
/// ("board_id", "ports/1/gids/0"). nullopt: there is no such file.
[[nodiscard]] std::optional<std::string> read_attribute(const host::Device& device,
                                                        std::string_view path);

/// The paths of all its files. Folders are what lies between; one ends in "/" that the kernel has.
[[nodiscard]] std::vector<std::string> attribute_paths(const host::Device& device);

}  // namespace verbena::front::sysfs
