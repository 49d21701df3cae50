#pragma once

// What other processes of the host must know of a connection to disconnect it when its process is
// killed.

#include <cstdint>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/time.h"
#include "cm/connection.h"
#include "cm/route.h"
#include "packet/comm_id.h"

namespace verbena::cm {

struct ConnectionRecord {
  packet::CommId local_id{};
  packet::CommId remote_id{};
  Route route{};
  Qpn remote_qpn{};
  Duration response_interval{};
  std::uint8_t max_retries = 0;

  friend constexpr bool operator==(const ConnectionRecord&, const ConnectionRecord&) = default;
};

[[nodiscard]] inline ConnectionRecord record_of(const Connection& c) {
  return {c.local_id, c.remote_id, c.route, c.peer.qpn, c.response_interval, c.max_retries};
}

/// Where the processes of a host keep their records. The local id names one.
class Records {
 public:
  /// The peer may take the connection for established from now on. No room is no error: then the
  /// peer isn't told if this process is killed.
  virtual void publish(const ConnectionRecord& record) = 0;
  /// It is over. Also of an orphan; of an id that was never published, too.
  virtual void withdraw(packet::CommId local_id) = 0;
  /// An orphan that was adopted here is still ours to disconnect.
  [[nodiscard]] virtual bool keeps(packet::CommId local_id) const = 0;
  /// The peer at `remote` agrees to the end of a connection that isn't ours. True: it was an
  /// orphan, and is over, whoever adopted it.
  virtual bool end_orphan(packet::CommId local_id, packet::CommId remote_id,
                          const IpAddress& remote) = 0;

 protected:
  ~Records() = default;
};

}  // namespace verbena::cm
