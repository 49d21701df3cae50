// What a post returns.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "rdma++/error.h"

namespace rdma {

/// 0 or an errno value. Look at it, or call check().
class [[nodiscard]] PostStatus {
 public:
  constexpr PostStatus() noexcept = default;
  constexpr PostStatus(const char* verb, int code) noexcept : verb_{verb}, code_{code} {}

  [[nodiscard]] constexpr bool ok() const noexcept { return code_ == 0; }
  constexpr explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] constexpr int code() const noexcept { return code_; }

  [[nodiscard]] std::string message() const {
    return ok() ? "posted" : concat(verb_, ": ", cause(), ": ", errno_text(code_));
  }
  /// Throws Error unless ok().
  void check() const {
    if (!ok()) [[unlikely]]
      raise();
  }

 private:
  [[nodiscard]] const char* cause() const noexcept {
    switch (code_) {
      case ENOMEM:
      case ENOSPC:
        return receives() ? "the queue is full; a message has to take a receive first, or make it "
                            "deeper"
                          : "the queue is full; poll completions of signaled requests first";
      case EINVAL:
        return "the state of the queue pair, the number of slices, the inline length or the opcode "
               "doesn't fit";
      case EOPNOTSUPP:
        return "the device doesn't have this operation";
      default:
        return "refused";
    }
  }
  [[nodiscard]] bool receives() const noexcept { return std::string_view{verb_}.ends_with("recv"); }
  [[noreturn]] [[gnu::cold]] void raise() const { throw Error{verb_, "", code_, cause()}; }

  const char* verb_ = "";
  int code_ = 0;
};

}  // namespace rdma
