#pragma once

// The ports that frames leave from, chosen by queue pair: GRO merges what has one source port,
// whatever its QPN, and networks spread load by that port. QP 1 has a few of its own, which tell
// what became of its messages (wire/udp/undelivered_reader.h).

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/result.h"
#include "system/fd.h"
#include "wire/udp/socket_address.h"

namespace verbena::wire {

struct SendSocket {
  Fd fd;
  LocalAddress local;
  std::uint16_t port = 0;
  bool segments = true;  // false: the interface refused UDP_SEGMENT, one datagram per frame
  bool blocked = false;  // said EAGAIN; what waits for it keeps its order
  bool tells = false;    // has an error queue: see undelivered_reader.h
  bool watched = false;  // somebody waits for what it tells
};

class SendSockets {
 public:
  static constexpr std::uint16_t kFirstPort = 0xC000;
  static constexpr std::size_t kPerAddress = 64;
  static constexpr std::size_t kManagementPorts = 4;

  void add_address(const LocalAddress& local);
  [[nodiscard]] Result<std::uint16_t> port_for(const IpAddress& address, Qpn qpn);
  /// For a message of QP 1: another one each time. Processes, paths and cores are chosen by it, and
  /// what was lost on one way may come through on the next.
  [[nodiscard]] Result<std::uint16_t> management_port(const IpAddress& address);
  /// Calls `visit` with each socket that management_port() gave.
  template <typename Visit>
  void for_each_management(Visit visit) const {
    for (const Pool& pool : pools_) {
      for (const auto& socket : pool.management) visit(*socket);
    }
  }
  /// nullptr: not a port that the others gave; 0 is any of port_for()'s. Stays valid as long as
  /// this object.
  [[nodiscard]] SendSocket* find(const IpAddress& address, std::uint16_t port);
  void close();

 private:
  struct Pool {
    LocalAddress local;
    std::vector<std::unique_ptr<SendSocket>> sockets{};
    std::vector<std::unique_ptr<SendSocket>> management{};
    std::size_t next_management = 0;
    std::unordered_map<std::uint16_t, SendSocket*> by_port{};

    std::uint16_t add(std::vector<std::unique_ptr<SendSocket>>& to,
                      std::unique_ptr<SendSocket> socket);
  };

  [[nodiscard]] Pool* pool_of(const IpAddress& address);
  [[nodiscard]] static Result<std::unique_ptr<SendSocket>> open(const LocalAddress& local);

  std::vector<Pool> pools_;  // one per address, so few
};

}  // namespace verbena::wire
