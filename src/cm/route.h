#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "packet/cm_mad.h"
#include "packet/mad.h"

namespace verbena::cm {

/// Between our QP 1 and a peer's connection manager.
struct Route {
  IpAddress local{};
  IpAddress remote{};
  Qpn remote_qp = packet::kGsiQpn;

  friend constexpr bool operator==(const Route&, const Route&) = default;
};

/// The payload of a UD SEND to our QP 1, with the Q_Key of the GSI.
struct IncomingMad {
  Route route{};
  std::span<const std::uint8_t> bytes{};
  /// Names a connection of another process, which is dead: whoever gets it speaks for the dead.
  bool orphaned = false;
};

/// To be sent as a UD SEND only from our QP 1, with the Q_Key of the GSI.
struct OutgoingMad {
  Route route{};
  packet::MadBytes bytes{};
  bool again = false;  // it has left before
};

/// Whether the network has returned `sent` as undelivered. Only its receiver and the network know
/// the communication id in it.
[[nodiscard]] inline bool is_returned(const OutgoingMad& sent, const IncomingMad& back) {
  return sent.route.local == back.route.local && sent.route.remote == back.route.remote &&
         std::equal(sent.bytes.begin(), sent.bytes.end(), back.bytes.begin(), back.bytes.end());
}

}  // namespace verbena::cm
