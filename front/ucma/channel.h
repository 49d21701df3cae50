#pragma once

#include <rdma/rdma_user_cm.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/result.h"
#include "cm/parameters.h"
#include "front/ucma/kernel_side.h"

namespace verbena::front::ucma {

/// An event that the program hasn't taken yet.
struct QueuedEvent {
  rdma_ucm_event_resp event{};
  std::uint32_t id = 0;                           // whose it is
  std::optional<std::uint32_t> membership{};      // of a multicast join
  std::optional<std::uint32_t> request{};         // the new id of a connection request …
  std::optional<cm::ConnectionId> connection{};   // … and the request itself
  std::chrono::steady_clock::time_point since{};  // it waits
};

/// An rdma_event_channel: one end of a socket pair is the program's descriptor, readable while
/// there are events and never writable. The other end, ours, sees when the last descriptor of it is
/// closed.
struct Channel {
  /// `fd` gets the program's end.
  static Result<Channel*> open(bool close_on_exec, bool nonblocking, int& fd);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  void add(const QueuedEvent& event);
  /// The oldest. `fd` is the program's end, here and below.
  [[nodiscard]] QueuedEvent take(int fd);
  /// Not readable any more: there are no events.
  void quieten(int fd);
  /// Those of which `goes` holds; they are given to `each` before.
  template <typename Predicate, typename F>
  void remove(Predicate goes, F each);
  [[nodiscard]] bool abandoned() const;

  ino_t inode = 0;  // of the program's end
  std::deque<QueuedEvent> events;
  std::unique_ptr<KernelSide> kernels;  // once there is an id at a device that isn't ours

 private:
  explicit Channel(int ours) : ours_{ours} {}
  void announce();
  /// Takes so many of the bytes from the program's end.
  void receive(int fd, std::size_t count);

  int ours_;
  std::size_t unread_ = 0;  // bytes at the program's end: while there are some, it is readable
};

template <typename Predicate, typename F>
void Channel::remove(Predicate goes, F each) {
  std::deque<QueuedEvent> kept;
  for (const QueuedEvent& e : events) {
    goes(e) ? each(e) : kept.push_back(e);
  }
  events.swap(kept);
  // It may be readable without events now; the program's next GET_EVENT quietens it.
}

}  // namespace verbena::front::ucma
