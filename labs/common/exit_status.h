#pragma once

// How a lab ends; --help tells it too.

namespace lab {

inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kSkipped = 77;

}  // namespace lab
