#pragma once

// How traces, statistics and errors name the ways of frames.

#include <string_view>

#include "packet/frame.h"

namespace verbena::host {

/// As --wire has them: shm, udp.
[[nodiscard]] std::string_view name_of(packet::Way way);
/// For programs; empty: there is nothing to say.
[[nodiscard]] std::string_view name_of(packet::Detour detour);
/// For people: why it isn't shared memory.
[[nodiscard]] std::string_view text_of(packet::Detour detour);

}  // namespace verbena::host
