// Multicast groups. Their traffic is the queue pair's business (ibv_attach_mcast); here is only
// what a join tells the program: how to address the group.

#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "front/ucma/addresses.h"
#include "front/ucma/commands.h"
#include "front/ucma/path.h"

namespace verbena::front::ucma {

namespace {

constexpr std::uint32_t kEverybody = 0xff'ffff;

bool is_group(const IpAddress& a) {
  return a.is_v4() ? (a.v4_bytes()[0] & 0xf0) == 0xe0 : a.bytes()[0] == 0xff;
}

Status join(Ucma& ucma, const Command& command, Id& id, std::uint64_t uid, std::uint64_t response,
            const SocketEndpoint& group) {
  if (!id.datagrams) return Error{EINVAL, "only ids of RDMA_PS_UDP can join groups"};
  if (!id.device || !id.source) return Error{EINVAL, "the id must be bound to an address"};
  if (!is_group(group.address)) {
    return Error{EINVAL, group.address.text() + " is not a multicast address"};
  }
  if (group.v6 != id.v6) return Error{EINVAL, "the group is of another address family"};
  Membership& membership = ucma.create_membership(id, uid);
  if (auto answered = command.answer(response, rdma_ucm_create_id_resp{.id = membership.handle});
      !answered) {
    ucma.destroy_membership(membership);
    return answered;
  }
  QueuedEvent queued{.id = id.handle, .membership = membership.handle};
  queued.event.uid = uid;
  queued.event.id = membership.handle;
  queued.event.event = static_cast<std::uint32_t>(EventType::multicast_join);
  rdma_ucm_ud_param& ud = queued.event.param.ud;
  ud.qp_num = kEverybody;
  ud.qkey = kUdpQkey;
  put_path(ud.ah_attr, id, group.address);
  id.channel->add(queued);
  return Ok{};
}

}  // namespace

Status join_ip_multicast(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_join_ip_mcast>();
  const auto group = parse_endpoint(&c.addr, sizeof c.addr);
  if (!group) return Error{EINVAL, "neither an IPv4 nor an IPv6 address"};
  auto id = ucma.find_id(command.channel, c.id);
  return id ? join(ucma, command, **id, c.uid, c.response, *group) : id.error();
}

Status join_multicast(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_join_mcast>();
  if (c.addr_size == 0 || c.addr_size > sizeof c.addr) {
    return Error{EINVAL, "addr_size " + std::to_string(c.addr_size) + ": must be 1 to " +
                             std::to_string(sizeof c.addr)};
  }
  if (c.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return Error{EINVAL, "unknown join_flags"};
  const auto group = parse_endpoint(&c.addr, c.addr_size);
  if (!group) return Error{EINVAL, "neither an IPv4 nor an IPv6 address"};
  auto id = ucma.find_id(command.channel, c.id);
  return id ? join(ucma, command, **id, c.uid, c.response, *group) : id.error();
}

Status leave_multicast(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_destroy_id>();
  auto membership = ucma.find_membership(c.id);
  if (!membership) return membership.error();
  if (auto id = ucma.find_id(command.channel, (*membership)->id); !id) return id.error();
  const rdma_ucm_destroy_id_resp response{.events_reported = (*membership)->events_reported};
  ucma.destroy_membership(**membership);
  if (command.channel.events.empty()) command.channel.quieten(command.fd);
  return command.answer(c.response, response);
}

}  // namespace verbena::front::ucma
