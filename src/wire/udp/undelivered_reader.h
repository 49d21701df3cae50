#pragma once

// ICMP's "destination unreachable", which quotes the frame. The kernel has matched its addresses
// and ports to one of our sockets, and keeps it in the socket's error queue.

#include <array>
#include <cstdint>
#include <optional>

#include "base/local_address.h"
#include "system/fd.h"
#include "wire/udp/send_sockets.h"
#include "wire/undelivered.h"

namespace verbena::wire {

/// Makes a socket keep what is said of its frames. A send may then fail with an error of an earlier
/// one, once. False: the kernel doesn't.
bool tell_undelivered(const Fd& fd, const LocalAddress& local);

/// The next that a socket has kept, and where its bytes lie.
class UndeliveredReader {
 public:
  [[nodiscard]] std::optional<Undelivered> next(const SendSocket& socket);

 private:
  std::array<std::uint8_t, 2048> bytes_{};
};

}  // namespace verbena::wire
