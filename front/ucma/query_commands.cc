// What an id knows: its ends, the path between them, and the attributes of a queue pair for it.

#include <endian.h>
#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cm/connection_manager.h"
#include "front/ucma/addresses.h"
#include "front/ucma/commands.h"
#include "front/ucma/newer_commands.h"
#include "front/ucma/path.h"
#include "front/verbs/device.h"
#include "packet/bth.h"

namespace verbena::front::ucma {

namespace {

unsigned scope_of(const Id& id) { return id.device ? id.device->interface_index : 0; }

/// struct sockaddr_ib of the kernel's headers (rdma/ib.h); librdmacm's is the same.
struct IbAddress {
  std::uint16_t family = 27;  // AF_IB
  std::uint16_t pkey = 0;
  std::uint32_t flow_info = 0;
  std::array<std::uint8_t, 16> gid{};
  std::uint64_t service = 0;
  std::uint64_t service_mask = 0;
  std::uint64_t scope = 0;
};

IbAddress ib_address(const std::optional<IpAddress>& address) {
  IbAddress out;
  out.pkey = htobe16(packet::kDefaultPkey);
  if (address) std::copy(address->bytes().begin(), address->bytes().end(), out.gid.begin());
  return out;
}

/// To the kernel a loopback address is all addresses (cma_any_addr()), and an id that is only bound
/// to one has no device yet. So libfabric binds to "localhost", and no port, when it wants every
/// device. Who names a port gets more from us: the device of that address.
bool device_is_known(const Id& id) {
  const bool only_bound = id.state == IdState::bound || id.state == IdState::listening;
  return id.device && !(only_bound && id.any_port && is_loopback(*id.source));
}

/// What librdmacm takes for "none"; it then compares GUIDs. ibv_get_device_index() has none either.
constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};

template <typename Response>
void put_device(Response& to, const Id& id) {
  if (!device_is_known(id)) return;
  to.node_guid = htobe64(id.device->guid);
  to.port_num = 1;
  to.ibdev_index = kNoIndex;
}

Status query_addr(const Id& id, const Command& command, std::uint64_t response) {
  rdma_ucm_query_addr_resp r{};
  put_device(r, id);
  r.pkey = htobe16(packet::kDefaultPkey);
  r.src_size = static_cast<std::uint16_t>(
      put_endpoint(&r.src_addr, id.v6, id.source, id.source_port, scope_of(id)));
  if (id.destination) {
    r.dst_size = static_cast<std::uint16_t>(
        put_endpoint(&r.dst_addr, id.v6, id.destination, id.destination_port, scope_of(id)));
  }
  return command.answer(response, &r, sizeof r, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

Status query_gid(const Id& id, const Command& command, std::uint64_t response) {
  rdma_ucm_query_addr_resp r{};
  put_device(r, id);
  r.pkey = htobe16(packet::kDefaultPkey);
  const IbAddress from = ib_address(id.source);
  const IbAddress to = ib_address(id.destination);
  r.src_size = r.dst_size = sizeof(IbAddress);
  std::memcpy(&r.src_addr, &from, sizeof from);
  std::memcpy(&r.dst_addr, &to, sizeof to);
  return command.answer(response, &r, sizeof r, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

Status query_path(const Id& id, const Command& command, std::uint64_t response) {
  struct Answer {
    std::uint32_t paths = 0;
    std::uint32_t reserved = 0;
    ib_path_rec_data path{};
  } r;
  const bool known = has_path(id);
  if (known) {
    r.paths = 1;
    r.path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    const PathRecord record = wire_path(id);
    static_assert(sizeof record == sizeof r.path.path_rec);
    std::memcpy(r.path.path_rec, &record, sizeof record);
  }
  const std::size_t size = known ? sizeof r : offsetof(Answer, path);
  return command.answer(response, &r, size, offsetof(Answer, path));
}

/// IBA 11.2.4.2: what each state wants; see the kernel's ib_cm_init_qp_attr().
void put_init(ib_uverbs_qp_attr& a, const Id& id, const std::optional<cm::QpParameters>& p) {
  a.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  a.port_num = 1;
  if (id.datagrams) {
    a.qp_attr_mask |= IBV_QP_QKEY;
    a.qkey = kUdpQkey;
    return;
  }
  a.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
  if (!p) return;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (p->max_dest_rd_atomic > 0) {
    a.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  }
}

void put_rtr(ib_uverbs_qp_attr& a, const Id& id, const cm::QpParameters& p) {
  a.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  put_path(a.ah_attr, id, p.remote);
  a.path_mtu = static_cast<std::uint32_t>(std::min(p.mtu, path_mtu(id)));
  a.dest_qp_num = p.remote_qpn.value();
  a.rq_psn = id.starting_psn.value();
  if (id.transport == cm::Transport::uc) return;
  a.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  a.max_dest_rd_atomic = p.max_dest_rd_atomic;
  a.min_rnr_timer = 0;
}

void put_rts(ib_uverbs_qp_attr& a, const Id& id, const cm::QpParameters& p) {
  a.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  a.sq_psn = p.sq_psn.value();
  if (id.transport == cm::Transport::uc) return;
  a.qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  a.timeout = id.ack_timeout.value_or(p.timeout.value());
  a.retry_cnt = p.retry_count;
  a.rnr_retry = p.rnr_retry_count;
  a.max_rd_atomic = p.max_rd_atomic;
}

}  // namespace

Status query_route(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_query>();
  auto found = ucma.find_id(command.channel, c.id);
  if (!found) return found.error();
  const Id& id = **found;
  rdma_ucm_query_route_resp r{};
  put_device(r, id);
  put_endpoint(&r.src_addr, id.v6, id.source, id.source_port, scope_of(id));
  if (id.destination) {
    put_endpoint(&r.dst_addr, id.v6, id.destination, id.destination_port, scope_of(id));
  }
  if (id.device) r.ib_route[0] = user_path(id);
  r.num_paths = has_path(id) ? 1 : 0;
  return command.answer(c.response, &r, sizeof r, offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

Status query(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_query>();
  auto id = ucma.find_id(command.channel, c.id);
  if (!id) return id.error();
  switch (c.option) {
    case RDMA_USER_CM_QUERY_ADDR:
      return query_addr(**id, command, c.response);
    case RDMA_USER_CM_QUERY_PATH:
      return query_path(**id, command, c.response);
    case RDMA_USER_CM_QUERY_GID:
      return query_gid(**id, command, c.response);
    case kQueryIbService:
      return Error{ENODATA, "no services were resolved"};
    default:
      return Error{ENOSYS, "there is no query " + std::to_string(c.option)};
  }
}

Status init_qp_attr(Ucma& ucma, const Command& command) {
  const auto c = command.as<rdma_ucm_init_qp_attr>();
  auto found = ucma.find_id(command.channel, c.id);
  if (!found) return found.error();
  const Id& id = **found;
  if (!id.device) return Error{EINVAL, "the id has no device yet: bind it, or resolve an address"};
  auto nic = ucma.nic();
  if (!nic) return nic.error();
  std::optional<cm::QpParameters> parameters;
  if (id.connection) {
    (*nic)->manage([&](cm::ConnectionManager& manager, Instant) {
      parameters = manager.qp_parameters(*id.connection);
    });
  }
  ib_uverbs_qp_attr a{};
  a.qp_state = c.qp_state;
  if (c.qp_state == IBV_QPS_INIT) {
    put_init(a, id, parameters);
  } else if (!parameters || id.datagrams ||
             (c.qp_state != IBV_QPS_RTR && c.qp_state != IBV_QPS_RTS)) {
    return Error{EINVAL, "no attributes for state " + std::to_string(c.qp_state) +
                             ": there is no peer yet, or the state is not INIT, RTR or RTS"};
  } else {
    c.qp_state == IBV_QPS_RTR ? put_rtr(a, id, *parameters) : put_rts(a, id, *parameters);
  }
  return command.answer(c.response, a);
}

}  // namespace verbena::front::ucma
