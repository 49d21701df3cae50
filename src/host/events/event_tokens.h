#pragma once

#include <array>
#include <cstddef>

namespace verbena::host {

/// What makes a channel's descriptor readable: a pipe with a byte for each event that waits. The
/// program has the end that reads, which is never writable, as the kernel's descriptors of events
/// never are.
class EventTokens {
 public:
  /// fd() is -1, and errno says why: there is none.
  EventTokens();
  ~EventTokens();
  EventTokens(const EventTokens&) = delete;
  EventTokens& operator=(const EventTokens&) = delete;

  [[nodiscard]] int fd() const { return ends_[0]; }

  /// take() waits when there is none, as the descriptor's flags are now.
  [[nodiscard]] bool blocks() const;
  /// Waits for one, or says EAGAIN, as the descriptor's flags want it. EINTR. If the channel is
  /// destroyed meanwhile, it waits on, as a read from the kernel's would.
  [[nodiscard]] bool take();

  // With the channel's lock held.

  /// An edge for whoever watches for one.
  void give();
  /// One was taken: there may be room for those that a full pipe had none for.
  void taken() {
    if (owed_ > 0) pay();
  }
  /// Those of events that are forgotten; never waits.
  void take_back(std::size_t count);

 private:
  void pay();

  std::array<int, 2> ends_{-1, -1};
  std::size_t owed_ = 0;  // given while the pipe was full
};

}  // namespace verbena::host
