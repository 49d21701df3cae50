#pragma once

// Commands of ids that the kernel has: see kernel_side.h. With the lock of Ucma held.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "front/ucma/command.h"
#include "front/ucma/ucma.h"

namespace verbena::front::ucma {

/// What the kernel says to the command. nullopt: its id is ours.
[[nodiscard]] std::optional<Status> pass_on(Ucma& ucma, std::uint32_t number,
                                            const Command& command);

/// The command, which names an address of a device of the kernel's, and all later ones of its id go
/// to the kernel.
[[nodiscard]] Status hand_over(Ucma& ucma, std::uint32_t number, const Command& command);

/// A listener at every address listens at those of the kernel's devices as well. False: there are
/// none, or it can't.
bool listen_in_kernel(Ucma& ucma, Id& id, int backlog);

}  // namespace verbena::front::ucma
