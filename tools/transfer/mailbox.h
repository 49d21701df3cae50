#pragma once

#include <sys/eventfd.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "tools/transfer/descriptor.h"

namespace verbena::transfer {

/// What other threads have for the one that polls.
template <class T>
class Mailbox {
 public:
  Mailbox() : event_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
    if (!event_) throw_errno("eventfd");
  }

  void push(T item) {
    {
      const std::lock_guard guard{lock_};
      items_.push_back(std::move(item));
    }
    const std::uint64_t one = 1;
    // It fails only if so many are counted that the descriptor is readable anyway.
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }
  [[nodiscard]] std::vector<T> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(event_.get(), &count, sizeof count);
    const std::lock_guard guard{lock_};
    return std::exchange(items_, {});
  }
  /// For poll(2): readable when take() has something.
  [[nodiscard]] int fd() const { return event_.get(); }

 private:
  Descriptor event_;
  std::mutex lock_;
  std::vector<T> items_;
};

}  // namespace verbena::transfer
