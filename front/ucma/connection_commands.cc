// Connections, and their like for datagrams.

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include <cerrno>

#include "cm/connection_manager.h"
#include "front/ucma/commands.h"
#include "front/ucma/passed_on.h"
#include "front/ucma/path.h"
#include "front/verbs/device.h"
#include "host/log.h"

namespace verbena::front::ucma {

namespace {

constexpr std::uint32_t kMaxBacklog = 1024;

/// What a command is about, and who does it.
struct Subject {
  Id& id;
  host::Nic& nic;
};

Result<Subject> subject(Ucma& ucma, const Command& command, std::uint32_t handle) {
  auto id = ucma.find_id(command.channel, handle);
  if (!id) return id.error();
  auto nic = ucma.nic();
  if (!nic) return nic.error();
  return Subject{**id, **nic};
}

cm::PrivateData private_data(const std::uint8_t* bytes, std::uint8_t size) {
  return {bytes, bytes + size};
}

cm::QueuePairOffer offer_of(const Id& id, const rdma_ucm_conn_param& p) {
  return {.qpn = Qpn{p.qp_num},
          .starting_psn = id.starting_psn,
          .responder_resources = p.responder_resources,
          .initiator_depth = p.initiator_depth,
          .rnr_retry_count = p.rnr_retry_count,
          .flow_control = p.flow_control != 0,
          .srq = p.srq != 0};
}

Result<cm::ConnectionId> ask(cm::ConnectionManager& manager, const Id& id,
                             const rdma_ucm_conn_param& p, Instant now) {
  const ServiceId service{id.space, id.destination_port};
  if (id.datagrams) {
    return manager.sidr_request({.source = *id.source,
                                 .destination = *id.destination,
                                 .service = service,
                                 .source_port = id.source_port,
                                 .private_data = private_data(p.private_data, p.private_data_len)},
                                now);
  }
  cm::ConnectParameters c{.source = *id.source,
                          .destination = *id.destination,
                          .service = service,
                          .source_port = id.source_port,
                          .ca_guid = id.device->guid,
                          .transport = id.transport,
                          .offer = offer_of(id, p),
                          .retry_count = p.retry_count,
                          .mtu = path_mtu(id),
                          .traffic_class = id.traffic_class,
                          .private_data = private_data(p.private_data, p.private_data_len)};
  if (id.ack_timeout) c.ack_timeout = packet::CmTimeout{*id.ack_timeout};
  return manager.connect(c, now);
}

/// Every address that the listener stands for.
Status open_addresses(host::Nic& nic, const Id& id) {
  if (id.source) return nic.open_address(*id.device, *id.source);
  if (!id.v6) return nic.open_wildcard(host::AddressFamily::v4);
  return nic.open_wildcard(id.one_family ? host::AddressFamily::v6 : host::AddressFamily::any);
}

}  // namespace

Status connect(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_connect>();
  if (c.conn_param.valid == 0) return Error{EINVAL, "conn_param.valid is 0"};
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (id.state != IdState::route_resolved) return wrong_state("resolved (rdma_resolve_route)");
  if (auto opened = nic.open_address(*id.device, *id.source); !opened) return opened;
  // The program hears of it by an event, as of any host that nothing reaches.
  if (auto way = nic.check_destination(*id.source, *id.destination); !way) {
    host::log(host::LogLevel::warn, "rdma_connect: {}", way.error().message);
  }
  Status asked = Ok{};
  nic.manage([&](cm::ConnectionManager& manager, Instant now) {
    const auto connection = ask(manager, id, c.conn_param, now);
    if (connection) {
      ucma.attach(id, *connection);
    } else {
      asked = connection.error();
    }
  });
  if (asked) id.state = IdState::connecting;
  return asked;
}

Status listen(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_listen>();
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (id.state == IdState::idle) {
    // As the kernel does: any address, any port.
    auto bound = nic.bind_port(
        {.space = id.space, .port = 0, .address = {}, .family = host::AddressFamily::v4});
    if (!bound) return bound.error();
    id.port = bound->id;
    id.source_port = bound->port;
    id.state = IdState::bound;
  }
  if (id.state != IdState::bound) return wrong_state("bound, and not connected");
  // Beside rxe, which has the UDP port at every address, the kernel alone listens.
  const bool in_kernel = !id.source && listen_in_kernel(ucma, id, static_cast<int>(c.backlog));
  if (auto opened = open_addresses(nic, id); !opened && !in_kernel) return opened;

  using Family = cm::ListenParameters::Family;
  Status listening = Ok{};
  nic.manage([&](cm::ConnectionManager& manager, Instant) {
    const auto listener = manager.listen(
        {.service = {id.space, id.source_port},
         .datagram = id.datagrams,
         .address = id.source,
         .family = !id.v6 ? Family::v4 : (id.one_family ? Family::v6 : Family::any),
         .backlog = c.backlog == 0 || c.backlog > kMaxBacklog ? kMaxBacklog : c.backlog});
    if (listener) {
      ucma.attach(id, *listener);
    } else {
      listening = listener.error();
    }
  });
  if (!listening) return listening;
  // Only now: a request that comes while the port is said to be listened to, and is not, would be
  // refused. Until then it waits.
  if (auto announced = nic.listen_port(*id.port); !announced) {
    ucma.stop_listening(id);
    return announced;
  }
  id.state = IdState::listening;
  return listening;
}

Status accept(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_accept>();
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (!id.connection) return wrong_state("connecting");
  Status accepted = Ok{};
  nic.manage([&](cm::ConnectionManager& manager, Instant now) {
    const rdma_ucm_conn_param& p = c.conn_param;
    const auto data = private_data(p.private_data, p.private_data_len);
    if (p.valid == 0) {  // our own request was answered, and the queue pair is ready
      accepted = manager.establish(*id.connection);
    } else if (id.datagrams) {
      accepted = manager.sidr_reply(
          *id.connection,
          {.qpn = Qpn{p.qp_num}, .qkey = p.qkey != 0 ? p.qkey : kUdpQkey, .private_data = data});
    } else {
      accepted = manager.accept(
          *id.connection,
          {.ca_guid = id.device->guid, .offer = offer_of(id, p), .private_data = data}, now);
    }
  });
  if (accepted && c.conn_param.valid != 0) {
    id.uid = c.uid;
    if (id.datagrams) id.state = IdState::connected;
  }
  return accepted;
}

Status reject(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_reject>();
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (!id.connection) return wrong_state("connecting");
  constexpr std::uint8_t kVendorOption = 35;  // rdma_reject_ece()
  if (c.reason != 0 && c.reason != 28 && c.reason != kVendorOption) {
    return Error{EINVAL,
                 "reason " + std::to_string(c.reason) + " can't be given by a program; use 28"};
  }
  Status rejected = Ok{};
  nic.manage([&](cm::ConnectionManager& manager, Instant) {
    const auto data = private_data(c.private_data, c.private_data_len);
    if (id.datagrams) {
      rejected = manager.sidr_reply(*id.connection,
                                    {.status = packet::SidrStatus::rejected, .private_data = data});
    } else {
      cm::RejectParameters p{.private_data = data};
      if (c.reason != 0) p.reason = static_cast<packet::RejectReason>(c.reason);
      rejected = manager.reject(*id.connection, p);
    }
  });
  if (rejected) id.state = IdState::over;
  return rejected;
}

Status disconnect(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_disconnect>();
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (!id.connection) return wrong_state("connected");
  // Programs part twice, and from what never came to be; the kernel doesn't mind.
  nic.manage([&](cm::ConnectionManager& manager, Instant now) {
    static_cast<void>(manager.disconnect(*id.connection, {}, now));
  });
  return Ok{};
}

Status notify(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_notify>();
  auto found = subject(ucma, command, c.id);
  if (!found) return found.error();
  Id& id = found->id;
  host::Nic& nic = found->nic;
  if (c.event != IBV_EVENT_COMM_EST || !id.connection) {
    return Error{EINVAL, "only IBV_EVENT_COMM_EST is accepted, for an id with a connection"};
  }
  Status noted = Ok{};
  nic.manage([&](cm::ConnectionManager& manager, Instant) {
    noted = manager.notify_established(*id.connection);
  });
  return noted;
}

}  // namespace verbena::front::ucma
