#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace verbena::front::ucma {

/// Writes to an address that a command named. EFAULT where the program has no such memory: the
/// kernel wouldn't raise a signal either.
[[nodiscard]] Status copy_to_program(std::uint64_t address, const void* bytes, std::size_t size);
[[nodiscard]] Status copy_from_program(void* to, std::uint64_t address, std::size_t size);

}  // namespace verbena::front::ucma
