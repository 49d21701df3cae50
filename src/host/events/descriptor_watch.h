#pragma once

// A thread that tells when descriptors become readable.

#include <cstdint>

#include "base/result.h"

namespace verbena::host {

class DescriptorWatch {
 public:
  /// Called on the thread, with the key of the descriptor, whenever something new can be read.
  using Callback = void (*)(std::uint64_t key) noexcept;

  constexpr explicit DescriptorWatch(Callback callback) : callback_{callback} {}
  DescriptorWatch(const DescriptorWatch&) = delete;
  DescriptorWatch& operator=(const DescriptorWatch&) = delete;

  // Not by two threads at once.

  /// The first starts the thread.
  [[nodiscard]] Status add(int fd, std::uint64_t key);
  /// Before it is closed. A call may be under way.
  void remove(int fd) const;
  /// In a forked child: the thread and what it watches are the parent's.
  void forget();

 private:
  [[nodiscard]] Status start();
  void run(int epoll) const;

  Callback callback_;
  int epoll_ = -1;
};

}  // namespace verbena::host
