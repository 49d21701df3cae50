#pragma once

#include <string>
#include <utility>
#include <variant>

namespace verbena {

/// Why a set-up call failed: the errno that the C ABI returns, and the sentence for the log.
struct Error {
  int code;
  std::string message;
};

/// A value or an Error.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_{std::in_place_index<0>, std::move(value)} {}
  Result(Error error) : state_{std::in_place_index<1>, std::move(error)} {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() & { return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return std::get<0>(state_); }
  [[nodiscard]] T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace verbena
