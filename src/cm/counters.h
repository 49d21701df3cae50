#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "packet/cm_attribute.h"
#include "packet/cm_mad.h"

namespace verbena::cm {

/// A number for each kind of message.
class PerMessage {
 public:
  [[nodiscard]] std::uint64_t& operator[](packet::CmAttribute a) { return counts_[index(a)]; }
  [[nodiscard]] std::uint64_t operator[](packet::CmAttribute a) const { return counts_[index(a)]; }

 private:
  static constexpr std::size_t index(packet::CmAttribute a) {
    return static_cast<std::size_t>(a) - static_cast<std::size_t>(packet::CmAttribute::req);
  }
  std::array<std::uint64_t, 11> counts_{};
};

/// Monotonic.
struct Counters {
  // As the kernel's cm_rx_msgs, cm_rx_duplicates, cm_tx_msgs and cm_tx_retries.
  PerMessage rx_msgs;
  PerMessage rx_duplicates;
  PerMessage tx_msgs;  // retries included
  PerMessage tx_retries;

  std::uint64_t timeouts = 0;           // the peer never answered
  std::uint64_t undelivered = 0;        // given up: the network reported that nobody is there
  std::uint64_t orphans_adopted = 0;    // connections of killed processes, see orphans.h
  std::uint64_t orphans_dropped = 0;    // whose id another orphan has
  std::uint64_t stale_connections = 0;  // a live connection's queue pair asks for another one

  // Messages dropped without an answer, by reason.
  std::array<std::uint64_t, 6> drop_malformed{};  // by packet::CmMalformed
  std::uint64_t drop_unknown_id = 0;              // names a connection that isn't there
  std::uint64_t drop_other_slot = 0;              // names another process's connection
  std::uint64_t drop_source = 0;   // not from the peer of the connection that it names
  std::uint64_t drop_state = 0;    // makes no sense now
  std::uint64_t drop_backlog = 0;  // more requests than the owner takes
  std::uint64_t drop_undelivered =
      0;  // reported as undelivered, but nothing waits for an answer to it
};

}  // namespace verbena::cm
