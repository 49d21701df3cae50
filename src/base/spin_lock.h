#pragma once

#include <atomic>

namespace verbena {

/// For critical sections of a few instructions. Works without a thread library, so that the
/// core may use it. Lockable: goes with std::lock_guard.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
      while (flag_.test(std::memory_order_relaxed)) relax();
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::atomic_flag flag_;
};

}  // namespace verbena
