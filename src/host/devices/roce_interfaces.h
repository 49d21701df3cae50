#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip_address.h"

namespace verbena::host {

/// An interface whose RoCE is spoken by somebody else.
struct RoceInterface {
  std::string name;
  std::string device;  // whose port it is: mlx5_0, rxe0
  bool rxe = false;    // the kernel's software, not hardware
};

/// As the kernel's sysfs has them.
[[nodiscard]] std::vector<RoceInterface> roce_interfaces();

/// Whose port an address of this machine is. nullopt: nobody's of them.
[[nodiscard]] std::optional<RoceInterface> roce_interface_with(const IpAddress& address);

/// nullptr: not among them.
[[nodiscard]] const RoceInterface* find_interface(const std::vector<RoceInterface>& all,
                                                  std::string_view name);

}  // namespace verbena::host
