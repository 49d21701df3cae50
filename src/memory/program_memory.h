#pragma once

#include "base/result.h"
#include "memory/dma.h"

namespace verbena::memory {

/// What registration demands of the program's memory: mapped, readable and, for `write`,
/// writable; and present, as the kernel's pinning leaves it. EFAULT otherwise.
[[nodiscard]] Status prepare_program_memory(Segment range, bool write);

}  // namespace verbena::memory
