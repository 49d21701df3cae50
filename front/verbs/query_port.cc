#include <algorithm>
#include <cstring>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/nic.h"
#include "front/verbs/qp_attributes.h"
#include "front/verbs/query.h"
#include "host/devices/link_rate.h"
#include "host/observation/statistics.h"

namespace verbena::front {

namespace {

ibv_port_attr port_attributes(const host::Device& device) {
  enum PhysicalState : std::uint8_t { kDisabled = 3, kLinkUp = 5 };

  ibv_port_attr a{};
  a.state = device.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  a.max_mtu = IBV_MTU_4096;
  a.active_mtu = mtu_to_c(device.active_mtu());
  a.gid_tbl_len = static_cast<int>(device.gids.size());
  a.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  a.max_msg_sz = 1u << 31;
  a.pkey_tbl_len = 1;
  a.max_vl_num = 1;
  const host::LinkRate rate = host::link_rate(host::link_speed(device.interface));
  a.active_width = rate.width;
  a.active_speed = rate.speed;
  a.phys_state = device.up ? kLinkUp : kDisabled;
  a.link_layer = IBV_LINK_LAYER_ETHERNET;
  a.flags = IBV_QPF_GRH_REQUIRED;
  if (host::Nic* const nic = live_nic.load()) {
    const engine::Counters counted = nic->port_statistics(device).counters;
    a.bad_pkey_cntr = static_cast<std::uint32_t>(counted.drop_pkey);
    a.qkey_viol_cntr = static_cast<std::uint32_t>(counted.drop_qkey);
  }
  return a;
}

/// What the exported symbol may write, for programs built before the struct grew.
constexpr std::size_t kOldLength = offsetof(ibv_port_attr, port_cap_flags2);
static_assert(kOldLength == 48);

}  // namespace

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr, std::size_t length) {
  return guarded_status("ibv_query_port", [&]() -> Status {
    const Context& ours = context_of(context);
    if (Status s = check_port(ours, port); !s) return s;
    const ibv_port_attr all = port_attributes(ours.now());
    std::memset(attr, 0, length);
    std::memcpy(attr, &all, std::min(length, sizeof all));
    return Ok{};
  });
}

}  // namespace verbena::front

// A macro of the same name goes through the context's table.
#undef ibv_query_port

using namespace verbena;
using namespace verbena::front;

/// In units of 100 Mbit/s.
VERBENA_EXPORT int ibv_query_port_speed(ibv_context* context, std::uint32_t port,
                                        std::uint64_t* speed) {
  if (!is_ours(context)) {
    return real::call<"ibv_query_port_speed", "IBVERBS_1.16">(ibv_query_port_speed, context, port,
                                                              speed);
  }
  return guarded_status("ibv_query_port_speed", [&]() -> Status {
    const Context& ours = context_of(context);
    if (Status s = check_port(ours, port); !s) return s;
    const host::LinkRate rate = host::link_rate(host::link_speed(ours.device.interface));
    *speed = rate.lanes * rate.tenths_per_lane;
    return Ok{};
  });
}

VERBENA_EXPORT int ibv_query_port(ibv_context* context, std::uint8_t port,
                                  _compat_ibv_port_attr* attr) {
  if (!is_ours(context)) {
    return real::call<"ibv_query_port", "IBVERBS_1.1">(ibv_query_port, context, port, attr);
  }
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), kOldLength);
}
