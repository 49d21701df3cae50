#pragma once

#include <cerrno>

#include "front/preload/real.h"

namespace verbena::front {

/// real::call() of a verb that returns a descriptor, and -1 with errno on failure.
template <real::Name Verb, real::Name Version, typename Object>
int real_descriptor(int (*)(Object*), Object* object) {
  static const auto function =
      reinterpret_cast<int (*)(Object*)>(real::symbol(Verb.text, Version.text));
  if (function != nullptr) return function(object);
  errno = ENOSYS;
  return -1;
}

}  // namespace verbena::front
