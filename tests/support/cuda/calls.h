#pragma once

// What every function of the driver goes through: it is counted, it may fail by plan, and the
// driver must be initialised.

#include <mutex>
#include <utility>
#include <vector>

#include "tests/support/cuda/api.h"

namespace stand_in {

/// The program did what makes the real driver crash: tells it and aborts.
[[noreturn]] void die(const char* what, unsigned long long about);

enum class Needs : bool { nothing, initialised };

/// CUDA_SUCCESS: the function may do its work.
[[nodiscard]] CUresult enter(const char* function, Needs needs);

template <typename F>
CUresult call(const char* function, F&& work, Needs needs = Needs::initialised) {
  if (const CUresult no = enter(function, needs); no != CUDA_SUCCESS) return no;
  return work();
}

/// What a handle of the program points to. It is never freed, so that a stale handle is recognised.
template <typename T, typename... Arguments>
[[nodiscard]] T* make_handle(Arguments&&... arguments) {
  static std::mutex& lock = *new std::mutex;
  static auto& all = *new std::vector<T*>;  // leak checkers find them here
  auto* handle = new T{std::forward<Arguments>(arguments)...};
  const std::lock_guard hold{lock};
  return all.emplace_back(handle);
}

/// True once after a call whose plan is `flip`: for the copy that it makes.
[[nodiscard]] bool take_flip();

/// CUDA_SUCCESS, or why there is no driver for this process.
[[nodiscard]] CUresult initialise();
[[nodiscard]] int devices();
/// How late the next operation of a stream starts: up to the delay, seeded.
[[nodiscard]] unsigned next_delay_us();
[[nodiscard]] bool dmabufs_can_be_mapped();

}  // namespace stand_in
