#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>

namespace verbena::front {

/// Room on the stack for N values that nobody has set. The data path fills a few of them;
/// clearing all would cost more than the rest of the call.
template <typename T, std::size_t N>
class Room {
  static_assert(std::is_aggregate_v<T> && std::is_trivially_destructible_v<T>);

 public:
  static constexpr std::size_t kSize = N;

  [[nodiscard]] std::span<T> first(std::size_t n) {
    return {std::launder(reinterpret_cast<T*>(bytes_)), n};
  }

 private:
  alignas(T) std::byte bytes_[N * sizeof(T)];
};

}  // namespace verbena::front
