#include "front/ucma/path.h"

#include <endian.h>
#include <infiniband/verbs.h>

#include <algorithm>

#include "base/bytes.h"
#include "packet/bth.h"

namespace verbena::front::ucma {

namespace {

constexpr std::uint8_t kHopLimit = 64;
constexpr std::uint8_t kExactly = 2;    // IB_SA_EQ
constexpr std::uint8_t kLifeTime = 16;  // 4.096 µs × 2^16, as the kernel's for RoCE

}  // namespace

bool has_path(const Id& id) {
  switch (id.state) {
    case IdState::idle:
    case IdState::bound:
    case IdState::addr_resolved:
    case IdState::listening:
      return false;
    case IdState::route_resolved:
    case IdState::connecting:
    case IdState::connected:
    case IdState::over:
      return true;
  }
  return false;
}

packet::PathMtu path_mtu(const Id& id) {
  switch (id.device ? id.device->active_mtu() : 1024) {
    case 256:
      return packet::PathMtu::mtu_256;
    case 512:
      return packet::PathMtu::mtu_512;
    case 2048:
      return packet::PathMtu::mtu_2048;
    case 4096:
      return packet::PathMtu::mtu_4096;
    default:
      return packet::PathMtu::mtu_1024;
  }
}

ib_user_path_rec user_path(const Id& id) {
  ib_user_path_rec p{};
  if (id.destination) {
    std::copy(id.destination->bytes().begin(), id.destination->bytes().end(), p.dgid);
  }
  if (id.source) std::copy(id.source->bytes().begin(), id.source->bytes().end(), p.sgid);
  p.reversible = 1;
  p.mtu = static_cast<std::uint32_t>(path_mtu(id));
  p.pkey = htobe16(packet::kDefaultPkey);
  p.hop_limit = kHopLimit;
  p.traffic_class = id.traffic_class;
  p.numb_path = 1;
  p.mtu_selector = p.rate_selector = p.packet_life_time_selector = kExactly;
  p.rate = IBV_RATE_MAX;
  p.packet_life_time = kLifeTime;
  return p;
}

PathRecord wire_path(const Id& id) {
  const ib_user_path_rec p = user_path(id);
  PathRecord r{};
  std::copy(std::begin(p.dgid), std::end(p.dgid), r.begin() + 8);
  std::copy(std::begin(p.sgid), std::end(p.sgid), r.begin() + 24);
  store_be32(&r[44], p.hop_limit);  // flow label above it
  r[48] = p.traffic_class;
  r[49] = 0x80 | 1;  // reversible, one path
  store_be16(&r[50], packet::kDefaultPkey);
  r[54] = static_cast<std::uint8_t>(kExactly << 6 | p.mtu);
  r[55] = static_cast<std::uint8_t>(kExactly << 6 | p.rate);
  r[56] = static_cast<std::uint8_t>(kExactly << 6 | p.packet_life_time);
  return r;
}

void put_path(ib_uverbs_ah_attr& to, const Id& id, const IpAddress& remote) {
  to = {};
  std::copy(remote.bytes().begin(), remote.bytes().end(), to.grh.dgid);
  to.grh.hop_limit = 64;
  to.grh.traffic_class = id.traffic_class;
  if (id.device && id.source) {
    const auto& gids = id.device->gids;
    to.grh.sgid_index =
        static_cast<std::uint8_t>(std::find(gids.begin(), gids.end(), *id.source) - gids.begin());
  }
  to.is_global = 1;
  to.port_num = 1;
}

void put_offer(rdma_ucm_event_resp& to, const cm::Event& news, const Id& id) {
  const auto put_private = [&news](auto& param) {
    const std::size_t n = std::min<std::size_t>(news.private_data.size(), 255);
    std::copy_n(news.private_data.begin(), n, param.private_data);
    param.private_data_len = static_cast<std::uint8_t>(n);
  };
  const cm::PeerOffer& offer = news.offer;
  if (id.datagrams) {
    rdma_ucm_ud_param& ud = to.param.ud;
    put_private(ud);
    if (news.kind != cm::EventKind::established) return;
    ud.qp_num = offer.qpn.value();
    ud.qkey = offer.qkey;
    put_path(ud.ah_attr, id, offer.remote.address);
    return;
  }
  rdma_ucm_conn_param& conn = to.param.conn;
  put_private(conn);
  conn.qp_num = offer.qpn.value();
  conn.responder_resources = offer.responder_resources;
  conn.initiator_depth = offer.initiator_depth;
  conn.flow_control = offer.flow_control ? 1 : 0;
  conn.retry_count = offer.retry_count;
  conn.rnr_retry_count = offer.rnr_retry_count;
  conn.srq = offer.srq ? 1 : 0;
  conn.valid = 1;
}

}  // namespace verbena::front::ucma
