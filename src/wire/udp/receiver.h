#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "system/fd.h"
#include "wire/train.h"
#include "wire/udp/socket_address.h"
#include "wire/wire_counters.h"

namespace verbena::wire {

struct ReceiveSocket {
  Fd fd;
  LocalAddress local;
  std::uint32_t drops_seen = 0;  // SO_RXQ_OVFL counts from the socket's birth, and wraps
  unsigned at_once = 1;          // datagrams that the next look takes
};

/// Takes datagrams from sockets, many with one call.
class Receiver {
 public:
  static constexpr unsigned kBuffers = 16;
  static constexpr std::size_t kBufferBytes = 1u << 16;  // what GRO merges at most
  static constexpr unsigned kFewLarge = 4;               // of them, see decision 017
  static constexpr std::size_t kLarge = kBufferBytes / 4;

  /// `memory` holds kBuffers * kBufferBytes.
  Receiver(std::span<std::uint8_t> memory, WireCounters& counters);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// At most kBuffers trains; after a look in vain, one, and of large ones kFewLarge: the peer
  /// waits for the acknowledgement of what was taken together. Returns how many.
  std::size_t receive(ReceiveSocket& socket, TrainSink& sink);

 private:
  // Traffic class, hop limit, segment size and drops, an int each.
  struct alignas(cmsghdr) Control {
    std::array<std::uint8_t, 4 * CMSG_SPACE(sizeof(int))> bytes;
  };

  /// Fills messages_ and returns how many, 0 also for an error.
  std::size_t take(const ReceiveSocket& socket);
  /// The kernel overwrites the sizes in the message; this sets them again.
  void prepare(std::size_t i);

  std::span<std::uint8_t> memory_;
  WireCounters& counters_;
  // Prepared once: a call that finds nothing must cost no more than the system call.
  std::array<mmsghdr, kBuffers> messages_{};
  std::array<iovec, kBuffers> pieces_{};
  std::array<SocketAddress, kBuffers> sources_;
  std::array<Control, kBuffers> controls_{};
};

}  // namespace verbena::wire
