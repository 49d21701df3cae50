#pragma once

// Connection requests for which nobody listens yet. A server may close its listener to open the
// next one (perftest does), and its client may be faster: it must not be refused. The kernel's
// connects are too slow for that to show; ours are not.

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
  /// … if a process has bound the port and is about to listen (qperf tells its client before that).
  static constexpr Duration kPatienceIfBound = std::chrono::milliseconds{500};
  /// How often to look for a listener: another process doesn't tell.
  static constexpr Duration kInterval = std::chrono::milliseconds{5};
  static constexpr std::size_t kMost = 256;

  /// False: too many wait.
  bool add(const packet::Datagram& d, Instant now, Duration patience = kPatience) {
    if (waiting_.size() >= kMost) return false;
    waiting_.push_back({d, {d.bytes.begin(), d.bytes.end()}, now, now + patience});
    next_look_ = std::min(next_look_, now + kInterval);
    return true;
  }

  [[nodiscard]] Instant next_look() const { return next_look_; }

  /// Calls offer(datagram, arrived, last) for each request. It stays if that returns false, unless
  /// this was the last time.
  template <typename Offer>
  void look(Instant now, Offer offer) {
    std::deque<Request> still;
    for (Request& r : waiting_) {
      r.datagram.bytes = r.bytes;
      const bool last = now >= r.until;
      if (!offer(r.datagram, r.arrived, last) && !last) still.push_back(std::move(r));
    }
    waiting_.swap(still);
    next_look_ = waiting_.empty() ? kNever : now + kInterval;
  }

 private:
  struct Request {
    packet::Datagram datagram;
    std::vector<std::uint8_t> bytes;
    Instant arrived;
    Instant until;
  };

  std::deque<Request> waiting_;
  Instant next_look_ = kNever;
};

}  // namespace verbena::host
