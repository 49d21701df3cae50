#pragma once

#include <string>

#include "labs/common/options.h"

namespace lab {

/// Where ends on this machine meet each other: at an address of the device that --device names,
/// else at 127.0.0.1. Opens no device in this process, which may still fork. Throws Failed.
[[nodiscard]] std::string home_address(const Options& options);

}  // namespace lab
