#pragma once

// What the network says of frames that reached nobody: ICMP's "destination unreachable", which
// quotes the frame. The kernel has matched its addresses and ports to one of our sockets; what the
// quotation says beyond that is for the reader to check, for anybody can send such a message.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/ip_address.h"
#include "wire/fd.h"
#include "wire/send_sockets.h"
#include "wire/socket_address.h"

namespace verbena::wire {

struct Undelivered {
  IpAddress source{};  // ours
  IpAddress destination{};
  int code = 0;                           // errno: ECONNREFUSED, EHOSTUNREACH, ENETUNREACH
  std::span<const std::uint8_t> bytes{};  // of the frame, as far as they were quoted
};

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
