#pragma once

// Why an interface has no device of ours.

#include <string>
#include <vector>

#include "host/devices/link_table.h"
#include "host/devices/roce_interfaces.h"

namespace verbena::host {

struct WithoutDevice {
  std::string interface;
  std::string reason;  // with the next step
};

/// In the order of `links`.
[[nodiscard]] std::vector<WithoutDevice> without_device(const LinkTable& links,
                                                        const std::vector<RoceInterface>& taken);

/// Those of this machine now, as a JSON list.
[[nodiscard]] std::string without_device_as_json();

}  // namespace verbena::host
