#pragma once

// The system's own libibverbs, to which everything goes that isn't ours.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <type_traits>

namespace verbena::front::real {

enum class Absence { logged, quiet };

/// nullptr: the system's library has no such symbol. Not through RTLD_NEXT: that finds
/// nothing where libibverbs was opened RTLD_LOCAL.
[[nodiscard]] void* symbol(const char* name, const char* version,
                           Absence absence = Absence::logged);

/// A string as a template argument.
template <std::size_t N>
struct Name {
  char text[N]{};
  constexpr Name(const char (&s)[N]) { std::copy_n(s, N, text); }
};

/// What a verb answers that is nowhere: ENOSYS, in the way of its return type.
template <typename R>
R missing() {
  errno = ENOSYS;
  if constexpr (std::is_void_v<R>) {
    return;
  } else if constexpr (std::is_same_v<R, int>) {
    return ENOSYS;
  } else {
    return R{};
  }
}

/// Calls the real `Verb`; the first argument only gives its type. Looked up once.
template <Name Verb, Name Version, typename R, typename... Args>
R call(R (*)(Args...), std::type_identity_t<Args>... args) {
  using Function = R (*)(Args...);
  static const auto function = reinterpret_cast<Function>(symbol(Verb.text, Version.text));
  return function != nullptr ? function(args...) : missing<R>();
}

}  // namespace verbena::front::real
