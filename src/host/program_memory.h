#pragma once

#include "base/result.h"
#include "engine/memory.h"

namespace verbena::host {

/// What registration demands of the program's memory: mapped, readable and, for `write`,
/// writable; and present, as the kernel's pinning leaves it. EFAULT otherwise.
[[nodiscard]] Status prepare_memory(engine::Segment range, bool write);

}  // namespace verbena::host
