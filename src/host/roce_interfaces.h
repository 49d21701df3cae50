#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace verbena::host {

/// An interface whose RoCE is spoken by somebody else.
struct RoceInterface {
  std::string name;
  std::string device;  // whose port it is: mlx5_0, rxe0
  bool rxe = false;    // the kernel's software, not hardware
};

/// As the kernel's sysfs has them.
[[nodiscard]] std::vector<RoceInterface> roce_interfaces();

/// nullptr: not among them.
[[nodiscard]] const RoceInterface* find_interface(const std::vector<RoceInterface>& all,
                                                  std::string_view name);

}  // namespace verbena::host
