// Where an id is, and where it will go.

#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "front/ucma/addresses.h"
#include "front/ucma/commands.h"
#include "front/ucma/newer_commands.h"
#include "host/reachability/source_address.h"

namespace verbena::front::ucma {

namespace {

/// Takes the port at the address, or at all of them.
Status bind_to(Ucma& ucma, Id& id, const SocketEndpoint& at) {
  if (id.state != IdState::idle) return wrong_state("new");
  auto nic = ucma.nic();
  if (!nic) return nic.error();
  std::optional<host::Device> device;
  if (!at.any()) {
    auto found = device_with(at.address, at.scope);
    if (!found) return found.error();
    device = std::move(*found);
  }
  const host::AddressFamily family = !at.v6          ? host::AddressFamily::v4
                                     : id.one_family ? host::AddressFamily::v6
                                                     : host::AddressFamily::any;
  auto bound = (*nic)->bind_port({.space = id.space,
                                  .port = at.port,
                                  .address = at.any() ? std::nullopt : std::optional{at.address},
                                  .family = family,
                                  .reuse = id.reuse});
  if (!bound) return bound.error();
  id.port = bound->id;
  id.v6 = at.v6;
  if (!at.any()) id.source = at.address;
  id.source_port = bound->port;
  id.any_port = at.port == 0 && !id.datagrams;
  id.device = std::move(device);
  id.state = IdState::bound;
  return Ok{};
}

/// The kernel would look for the neighbour; our packets leave through it anyway.
Status resolve(Ucma& ucma, Id& id, const std::optional<SocketEndpoint>& source,
               const SocketEndpoint& destination) {
  if (id.state != IdState::idle && id.state != IdState::bound) return wrong_state("new or bound");
  SocketEndpoint from = source.value_or(SocketEndpoint{.v6 = destination.v6});
  if (!source && !destination.v6) from.address = IpAddress::v4({0, 0, 0, 0});
  if (id.state == IdState::bound) {
    from = {.v6 = id.v6, .address = id.source.value_or(from.address), .port = id.source_port};
  }
  if (from.v6 != destination.v6) {
    return Error{EINVAL, "source and destination are of different address families"};
  }
  if (from.any()) {
    auto chosen = host::source_address(destination.address, destination.scope);
    if (!chosen) return chosen.error();
    from.address = *chosen;
  }
  if (id.state == IdState::idle) {
    if (from.address.is_link_local() && from.scope == 0) from.scope = destination.scope;
    if (auto bound = bind_to(ucma, id, from); !bound) return bound;
  } else if (!id.source) {
    auto device = device_with(from.address, destination.scope);
    if (!device) return device.error();
    id.device = std::move(*device);
    id.source = from.address;
  }
  id.destination = destination.address;
  id.destination_port = destination.port;
  id.state = IdState::addr_resolved;
  ucma.tell(id, EventType::addr_resolved);
  return Ok{};
}

Error bad_address() { return Error{EINVAL, "neither an IPv4 nor an IPv6 address"}; }

}  // namespace

Status bind_ip(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_bind_ip>();
  const auto at = parse_endpoint(&c.addr, sizeof c.addr);
  if (!at) return bad_address();
  auto id = ucma.find_id(command.channel, c.id);
  return id ? bind_to(ucma, **id, *at) : id.error();
}

Status bind(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_bind>();
  if (c.reserved != 0 || c.addr_size == 0 || c.addr_size > sizeof c.addr) return bad_address();
  constexpr unsigned short kAfIb = 27;
  if (c.addr.ss_family == kAfIb) return Error{EINVAL, ""};  // a probe: librdmacm does without
  const auto at = parse_endpoint(&c.addr, c.addr_size);
  if (!at) return bad_address();
  auto id = ucma.find_id(command.channel, c.id);
  return id ? bind_to(ucma, **id, *at) : id.error();
}

Status resolve_ip(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_resolve_ip>();
  const auto to = parse_endpoint(&c.dst_addr, sizeof c.dst_addr);
  if (!to) return bad_address();
  std::optional<SocketEndpoint> from;
  if (c.src_addr.sin6_family != 0) {
    from = parse_endpoint(&c.src_addr, sizeof c.src_addr);
    if (!from) return bad_address();
  }
  auto id = ucma.find_id(command.channel, c.id);
  return id ? resolve(ucma, **id, from, *to) : id.error();
}

Status resolve_addr(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_resolve_addr>();
  if (c.reserved != 0 || c.dst_size > sizeof c.dst_addr || c.src_size > sizeof c.src_addr) {
    return bad_address();
  }
  const auto to = parse_endpoint(&c.dst_addr, c.dst_size);
  if (!to) return bad_address();
  std::optional<SocketEndpoint> from;
  if (c.src_size != 0) {
    from = parse_endpoint(&c.src_addr, c.src_size);
    if (!from) return bad_address();
  }
  auto id = ucma.find_id(command.channel, c.id);
  return id ? resolve(ucma, **id, from, *to) : id.error();
}

Status resolve_route(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_resolve_route>();
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  if ((*id)->state != IdState::addr_resolved) return wrong_state("resolved (rdma_resolve_addr)");
  (*id)->state = IdState::route_resolved;
  ucma.tell(**id, EventType::route_resolved);
  return Ok{};
}

/// As the kernel says of RoCE, where there is no subnet administrator to ask.
Status resolve_ib_service(Ucma& ucma, const Command& command) {
  const auto c = command.as<ResolveIbService>();
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  if ((*id)->state != IdState::bound || !(*id)->device) return wrong_state("bound to a device");
  return Error{EOPNOTSUPP, "RoCE has no subnet administrator that knows services"};
}

}  // namespace verbena::front::ucma
