#pragma once

// The edge of the C ABI: a Result becomes what the man page says, its sentence a line in the
// log, and no exception leaves.

#include <cerrno>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "host/no_cancellation.h"

namespace verbena::front {

/// Logs "CALL: message", if there is one, and sets errno to the error's code, which it returns.
int report(const char* call, const Error& error) noexcept;
/// The same of the exception in flight; only in a catch block.
int report_exception(const char* call) noexcept;

/// Verbs are no cancellation points, but the system calls beneath them are.
using host::NoCancellation;

/// A verb that gives an object: nullptr and errno on failure. `body` returns Result<T*>.
template <typename Body>
auto guarded(const char* call, Body body) noexcept {
  using Pointer = std::remove_cvref_t<decltype(*body())>;
  const NoCancellation shield;
  try {
    auto result = body();
    if (result) return *result;
    report(call, result.error());
  } catch (...) {
    report_exception(call);
  }
  return Pointer{nullptr};
}

/// A verb that returns 0 or an errno value. `body` returns Status.
template <typename Body>
int guarded_status(const char* call, Body body) noexcept {
  const NoCancellation shield;
  try {
    const Status result = body();
    return result ? 0 : report(call, result.error());
  } catch (...) {
    return report_exception(call);
  }
}

/// A verb that returns 0, or -1 with errno. `body` returns Status.
template <typename Body>
int guarded_minus_one(const char* call, Body body) noexcept {
  return guarded_status(call, std::move(body)) == 0 ? 0 : -1;
}

}  // namespace verbena::front
