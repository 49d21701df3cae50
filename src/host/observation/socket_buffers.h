#pragma once

#include <string>

namespace verbena::host {

/// {"receive":BYTES,"send":BYTES}: what the UDP wire asks the kernel for.
[[nodiscard]] std::string socket_buffers_as_json();

}  // namespace verbena::host
