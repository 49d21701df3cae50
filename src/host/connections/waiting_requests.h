#pragma once

// Connection requests for which nobody listens, yet. A server that closes its listener to open the
// next one (perftest does) is not gone: its client, who may be faster, must not be refused. The
// kernel's own connects are too slow for anybody to notice; ours are not.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/time.h"
#include "packet/frame.h"

namespace verbena::host {

class WaitingRequests {
 public:
  /// How long a request waits for a listener before it is refused.
  static constexpr Duration kPatience = std::chrono::milliseconds{50};
  /// … if somebody has the port already, and will listen (qperf tells its client before it does).
  static constexpr Duration kPatienceIfBound = std::chrono::milliseconds{500};
  /// How often it is looked whether there is one now; another process doesn't tell.
  static constexpr Duration kInterval = std::chrono::milliseconds{5};
  static constexpr std::size_t kMost = 256;

  /// False: too many wait.
  bool add(const packet::Datagram& d, Instant now, Duration patience = kPatience) {
    if (waiting_.size() >= kMost) return false;
    waiting_.push_back({d, {d.bytes.begin(), d.bytes.end()}, now + patience});
    next_look_ = std::min(next_look_, now + kInterval);
    return true;
  }

  [[nodiscard]] Instant next_look() const { return next_look_; }

  /// Gives each request to `settle(datagram, last)`; it stays if that returns false, but for the
  /// last time.
  template <typename Settle>
  void look(Instant now, Settle settle) {
    std::deque<Request> still;
    for (Request& r : waiting_) {
      r.datagram.bytes = r.bytes;
      const bool last = now >= r.until;
      if (!settle(r.datagram, last) && !last) still.push_back(std::move(r));
    }
    waiting_.swap(still);
    next_look_ = waiting_.empty() ? kNever : now + kInterval;
  }

 private:
  struct Request {
    packet::Datagram datagram;
    std::vector<std::uint8_t> bytes;
    Instant until;
  };

  std::deque<Request> waiting_;
  Instant next_look_ = kNever;
};

}  // namespace verbena::host
