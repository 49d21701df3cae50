#pragma once

// Errors that several set-up calls return.

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace verbena::engine {

/// Short enough to need no memory itself.
inline Error no_memory() { return {ENOMEM, "out of memory"}; }

inline Error over_limit(const char* what, std::uint64_t asked, std::uint64_t limit) {
  return {EINVAL, std::string{what} + " " + std::to_string(asked) + " exceeds the device's " +
                      std::to_string(limit)};
}

}  // namespace verbena::engine
