#pragma once

#include <cstdint>

namespace verbena::front::ucma {

/// Numbered as enum rdma_cm_event_type, whose header can't be included beside the kernel's.
enum class EventType : std::uint32_t {
  addr_resolved = 0,
  addr_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  device_removal = 11,
  multicast_join = 12,
  multicast_error = 13,
  addr_change = 14,
  timewait_exit = 15,
  addrinfo_resolved = 16,
  addrinfo_error = 17,
  user = 18,      // the program's own
  internal = 19,  // librdmacm's own
};

}  // namespace verbena::front::ucma
