#pragma once

#include <cstring>
#include <string>

#include "base/result.h"

namespace verbena {

/// "what: text of code". `what` names the call and the object.
inline Error system_error(int code, const std::string& what) {
  return {code, what + ": " + std::strerror(code)};
}

inline Error system_error(int code, const std::string& what, const std::string& next_step) {
  return {code, what + ": " + std::strerror(code) + "; " + next_step};
}

}  // namespace verbena
