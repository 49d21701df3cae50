#pragma once

// The ports that frames leave from, chosen by queue pair: GRO merges what has one source port,
// whatever its QPN, and networks spread load by that port.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "wire/fd.h"
#include "wire/socket_address.h"

namespace verbena::wire {

struct SendSocket {
  Fd fd;
  LocalAddress local;
  std::uint16_t port = 0;
  bool segments = true;  // false: the interface refused UDP_SEGMENT, one datagram per frame
  bool blocked = false;  // said EAGAIN; what waits for it keeps its order
};

class SendSockets {
 public:
  static constexpr std::uint16_t kFirstPort = 0xC000;
  static constexpr std::size_t kPerAddress = 64;

  void add_address(const LocalAddress& local);
  [[nodiscard]] Result<std::uint16_t> port_for(const IpAddress& address, Qpn qpn);
  /// nullptr: not a port that port_for() gave; 0 is any of those. Stays valid as long as this
  /// object.
  [[nodiscard]] SendSocket* find(const IpAddress& address, std::uint16_t port);
  void close();

 private:
  struct Pool {
    LocalAddress local;
    std::vector<std::unique_ptr<SendSocket>> sockets;
    std::unordered_map<std::uint16_t, SendSocket*> by_port;
  };

  [[nodiscard]] Pool* pool_of(const IpAddress& address);
  [[nodiscard]] static Status grow(Pool& pool);

  std::vector<Pool> pools_;  // one per address, so few
};

}  // namespace verbena::wire
