#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>

#include "base/psn.h"
#include "base/service_id.h"
#include "cm/event.h"
#include "cm/parameters.h"
#include "host/connections/ports.h"
#include "host/devices/device.h"
#include "host/nic.h"

namespace verbena::front::ucma {

struct Channel;

/// What a program has done with an id so far. Calls out of order are EINVAL.
enum class IdState : std::uint8_t {
  idle,
  bound,          // to an address, or to all of them
  addr_resolved,  // both ends known
  route_resolved,
  listening,
  connecting,  // asked, or asked by a peer
  connected,   // from the REP on
  over,        // refused, disconnected, unreachable
};

/// A multicast group that an id has joined.
struct Membership {
  std::uint32_t handle = 0;
  std::uint64_t uid = 0;
  std::uint32_t id = 0;  // whose
  std::uint32_t events_reported = 0;
};

/// An rdma_cm_id, as the kernel would have it.
struct Id {
  std::uint32_t handle = 0;
  std::uint64_t uid = 0;  // the program's name for it; 0: a request that isn't accepted yet
  Channel* channel = nullptr;
  PortSpace space{};
  bool datagrams = false;
  cm::Transport transport{};
  std::uint8_t qp_type = 0;                // as the program said it
  std::optional<std::uint32_t> kernels{};  // the handle, if the id is at a device of the kernel's
  std::optional<std::uint32_t> twin{};     // that of a listener in the kernel, at the same port

  IdState state = IdState::idle;
  bool v6 = false;
  std::optional<IpAddress> source{};  // nullopt: every address
  std::uint16_t source_port = 0;
  bool any_port = false;  // the program left the choice of it to us; streams alone
  std::optional<IpAddress> destination{};
  std::uint16_t destination_port = 0;
  std::optional<host::Device> device{};  // as it was when the address was looked up

  std::uint8_t traffic_class = 0;
  bool reuse = false;
  bool one_family = false;
  std::optional<std::uint8_t> ack_timeout{};

  std::optional<host::PortId> port{};
  std::optional<cm::ConnectionId> connection{};
  std::optional<cm::ListenerId> listener{};
  Psn starting_psn{};                 // that we expect of the peer
  std::uint32_t events_reported = 0;  // that the program has taken; it counts them, too
};

}  // namespace verbena::front::ucma
