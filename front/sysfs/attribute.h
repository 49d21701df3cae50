#pragma once

// The files that a kernel driver would show of the device below /sys/class/infiniband/NAME.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/devices/device.h"

namespace verbena::front::sysfs {

/// What reading a file gives.
struct Attribute {
  Attribute(std::string contents) : text{std::move(contents)} {}
  Attribute(const char* contents) : text{contents} {}
  /// It is there, and read() says EINVAL: the kernel's of an empty GID entry.
  static Attribute unreadable() {
    Attribute a{""};
    a.readable = false;
    return a;
  }

  std::string text;  // without its newline
  bool readable = true;
};

/// By its path below the device's folder ("board_id", "ports/1/gids/0"). nullopt: there is no such
/// file.
[[nodiscard]] std::optional<Attribute> read_attribute(const host::Device& device,
                                                      std::string_view path);

/// The paths of all its files. Folders are what lies between; one ends in "/" that the kernel has.
[[nodiscard]] std::vector<std::string> attribute_paths(const host::Device& device);

}  // namespace verbena::front::sysfs
