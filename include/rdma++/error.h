// What set-up throws, and where destructors report to, because they can't throw.
#pragma once

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rdma++/text.h"

namespace rdma {

/// A verb that failed at set-up. what() reads
///   ibv_create_qp: device vb_lo: max_send_wr 100000 exceeds max_qp_wr 32768; ask for less:
///   Invalid argument (22)
class Error : public std::runtime_error {
 public:
  /// `cause`: what was wrong, with the numbers, and the next step; may be empty.
  Error(std::string verb, std::string object, int code, std::string_view cause = {})
      : std::runtime_error{sentence(verb, object, code, cause)},
        verb_{std::move(verb)},
        object_{std::move(object)},
        code_{code} {}

  [[nodiscard]] const std::string& verb() const noexcept { return verb_; }
  [[nodiscard]] const std::string& object() const noexcept { return object_; }
  [[nodiscard]] int code() const noexcept { return code_; }  ///< errno value, or 0

 private:
  static std::string sentence(std::string_view verb, std::string_view object, int code,
                              std::string_view cause) {
    std::string result{verb};
    for (const std::string_view part : {object, cause}) {
      if (!part.empty()) result.append(": ").append(part);
    }
    if (code != 0) result.append(": ").append(errno_text(code));
    return result;
  }

  std::string verb_;
  std::string object_;
  int code_;
};

/// A deadline passed before what was waited for.
class TimedOut : public Error {
 public:
  TimedOut(std::string verb, std::string object, std::string_view cause = {})
      : Error{std::move(verb), std::move(object), ETIMEDOUT, cause} {}
};

/// A std::stop_token asked to end the wait.
class Cancelled : public Error {
 public:
  Cancelled(std::string verb, std::string object)
      : Error{std::move(verb), std::move(object), ECANCELED} {}
};

using Reporter = void (*)(std::string_view message) noexcept;

/// Prints to stderr.
inline void report_to_stderr(std::string_view message) noexcept {
  std::fprintf(stderr, "rdma++: %.*s\n", static_cast<int>(message.size()), message.data());
}

namespace detail {
inline std::atomic<Reporter> reporter{report_to_stderr};
}  // namespace detail

/// Where failing destructors and the checks of debug builds report to. Returns the former one.
inline Reporter set_reporter(Reporter to) noexcept { return detail::reporter.exchange(to); }

inline void report(std::string_view message) noexcept { detail::reporter.load()(message); }

}  // namespace rdma
