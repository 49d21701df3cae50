#pragma once

// The functions of libc that ours stand before: libc's own, or those of another preloaded library
// that stands behind us (librspreload).

#include <dlfcn.h>

#include <atomic>

#include "front/preload/real.h"

namespace verbena::front::next {

/// Looked up at the first call; those that signal handlers may make are looked up while the library
/// is loaded (look_up_paths(), look_up_descriptors()), so that they only load a
/// pointer.
template <real::Name Symbol, typename Function>
[[nodiscard]] Function* get() {
  static std::atomic<void*> found{nullptr};
  void* function = found.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = dlsym(RTLD_NEXT, Symbol.text);
    found.store(function, std::memory_order_relaxed);
  }
  return reinterpret_cast<Function*>(function);
}

}  // namespace verbena::front::next
