#pragma once

// The path between an id's ends, as subnet administration would describe it. On RoCE all of it
// follows from the addresses.

#include <rdma/ib_user_sa.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <cstdint>

#include "cm/event.h"
#include "front/ucma/id.h"
#include "packet/cm_req.h"

namespace verbena::front::ucma {

/// Q_Key of everybody who joins the UDP port space (RDMA_UDP_QKEY).
inline constexpr std::uint32_t kUdpQkey = 0x0123'4567;

/// Both ends are known and the route was asked for.
[[nodiscard]] bool has_path(const Id& id);

/// The largest that the device's interface lets through.
[[nodiscard]] packet::PathMtu path_mtu(const Id& id);

[[nodiscard]] ib_user_path_rec user_path(const Id& id);

/// SA's PathRecord (IBA 15.2.5.16): 64 bytes, in network order.
using PathRecord = std::array<std::uint8_t, 64>;
[[nodiscard]] PathRecord wire_path(const Id& id);

/// Turns the connection manager's words into the command interface's.
void put_offer(rdma_ucm_event_resp& to, const cm::Event& news, const Id& id);

/// An address handle's attributes for the way from `id`'s device to `remote`.
void put_path(ib_uverbs_ah_attr& to, const Id& id, const IpAddress& remote);

}  // namespace verbena::front::ucma
