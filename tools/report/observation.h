#pragma once

// What one observer saw: a line of a trace, or a packet of a capture. The model is built of these.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace verbena::report {

enum class Seen : std::uint8_t {
  state,
  post_send,
  post_receive,
  sent,
  received,
  passing,  // captured somewhere on its way: which end did it is not known
  dropped,  // arrived and was dropped
  fault,    // what --faults did to a frame that had just left
  retry,
  completion,
};

// Files may name any time: what is computed of their times stays at the ends of its type.
[[nodiscard]] constexpr std::int64_t time_of(std::uint64_t nanoseconds) {
  constexpr std::int64_t kLatest = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(nanoseconds, std::uint64_t{kLatest}));
}
[[nodiscard]] constexpr std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? Limits::min() : Limits::max();
}
[[nodiscard]] constexpr std::int64_t difference_of(std::int64_t a, std::int64_t b) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? Limits::min() : Limits::max();
}

/// Fields that its kind doesn't have keep their defaults. Texts live in Observations::texts.
struct Observation {
  Seen kind = Seen::passing;
  std::int64_t time = 0;               // ns of the clock of its source
  std::uint32_t observer = 0;          // place in Observations::observers
  std::uint32_t qpn = 0;               // whose event it is; of a captured packet 0
  std::optional<std::uint32_t> srq{};  // of a post to a shared receive queue, in place of `qpn`
  std::uint32_t destination_qpn = 0;
  std::string_view local;  // addresses as text; of a captured packet source and destination
  std::string_view peer;

  // of packets
  std::uint8_t opcode = 0;
  std::uint32_t psn = 0;
  std::uint32_t bytes = 0;
  bool again = false;
  bool again_known = false;  // `again` was observed, and need not be worked out
  bool ack_request = false;
  std::vector<std::uint8_t> headers;  // BTH and extensions; of a connection message also the MAD

  // of requests
  std::string_view wr_id;
  std::string_view op;      // "RDMA_WRITE"; of a completion "RECV", too
  std::string_view status;  // of a completion
  std::uint64_t request_bytes = 0;
  bool signaled = true;  // of a post: it completes also with success

  // of changes of state
  std::string_view from;
  std::string_view to;
  std::string_view type;  // "RC"
  std::string_view device;
  std::uint32_t mtu = 0;

  std::string_view word;  // cause of a retry, reason of a drop, kind of a fault
};

/// A process that wrote a trace, or a capture.
struct Observer {
  std::uint32_t source = 0;  // place in Observations::files
  bool traced = false;
  std::uint32_t pid = 0;  // of a process
  std::string program;
  std::string host;
  std::string clock;      // observers of one clock have the same: boot id, or the capture's name
  std::int64_t wall = 0;  // ns since 1970 at the clock's 0; 0: unknown
};

struct Observations {
  std::vector<std::string> files;
  std::vector<Observer> observers;
  std::vector<Observation> all;  // in the order of the files
  std::vector<std::string> remarks;
  std::unordered_set<std::string> texts;

  /// The same text, for as long as this lives.
  [[nodiscard]] std::string_view keep(std::string text) {
    return *texts.insert(std::move(text)).first;
  }
};

/// "0x0001a2", as Wireshark shows queue pair numbers and PSNs of connection messages.
[[nodiscard]] std::string qpn_text(std::uint32_t qpn);

}  // namespace verbena::report
