#include "engine/responder_checks.h"

#include "engine/message_rules.h"
#include "engine/receive_side.h"
#include "engine/remote_access.h"

namespace verbena::engine {

using packet::Kind;
using packet::Packet;
using packet::Syndrome;

Refusal check_order(const Responder& r, const Packet& p) {
  const bool between = r.message == Kind::none;
  const bool fits = p.info().first ? between : r.message == p.info().kind;
  return fits ? Refusal{} : kInvalidRequest;
}

Refusal check_permitted(const QueuePair& qp, const Packet& p) {
  if (p.info().kind == Kind::flush) return {};
  const unsigned needed = access_for(p);
  return (qp.attributes.access & needed) == needed ? Refusal{} : kInvalidRequest;
}

Refusal check_srq(const Services& services, QueuePair& qp, const Packet& p) {
  if (qp.type != QpType::xrc_receive) return {};
  const bool inside_message = !p.info().first && !takes_receive(p);
  if (inside_message && qp.responder.xrc_srq != nullptr) return {};
  const auto it = services.srqs.find(p.xrceth.xrcsrq);
  if (it == services.srqs.end() || it->second->xrc_cq == nullptr || it->second->xrcd != qp.xrcd) {
    return kInvalidRequest;
  }
  qp.responder.xrc_srq = it->second.get();
  return {};
}

Refusal check_receive(Services& services, QueuePair& qp, const Packet& p) {
  if (!takes_receive(p) || take_receive(services, qp)) return {};
  return Syndrome::rnr_nak(qp.attributes.min_rnr_timer);
}

Refusal check_depth(const QueuePair& qp, const Packet& p) {
  if (!is_answered(p.info().kind)) return {};
  const auto fresh = qp.responder.responses.count_if([](const Response& r) { return !r.replay; });
  return fresh < qp.attributes.max_dest_rd_atomic ? Refusal{} : kInvalidRequest;
}

Refusal check_length(const QueuePair& qp, const Packet& p) {
  const auto& info = p.info();
  const std::size_t size = p.payload.size();
  if (info.reth && p.reth.length > kMaxMessage) return kInvalidRequest;
  bool fits = false;
  if (info.kind == Kind::atomic_write) {
    fits = size == 8 && p.reth.length == 8;
  } else if (is_answered(info.kind)) {
    fits = size == 0;
  } else {
    fits = length_fits(qp, p);
  }
  return fits ? Refusal{} : kInvalidRequest;
}

namespace {

Refusal check_range(const Services& services, const QueuePair& qp, const packet::Reth& reth,
                    unsigned access) {
  if (reth.length == 0) return {};  // C9-88: nothing is touched, so nothing is checked
  const bool granted = remote_region(services, qp, remote_pd(qp), reth.rkey, reth.address,
                                     reth.length, access) != nullptr;
  return granted ? Refusal{} : kNoAccess;
}

/// C9-215: the word is aligned. With an iova of the program's choice that must hold for where it
/// really lies, too: the CPU's atomics want it.
Refusal check_word(const Services& services, const QueuePair& qp, std::uint64_t address, Key rkey,
                   unsigned access) {
  if (address % 8 != 0) return kInvalidRequest;
  const MemoryRegion* region = remote_region(services, qp, remote_pd(qp), rkey, address, 8, access);
  if (region == nullptr) return kNoAccess;
  return region->translate(address) % 8 == 0 ? Refusal{} : kInvalidRequest;
}

}  // namespace

Refusal check_memory(const Services& services, const QueuePair& qp, const Packet& p) {
  const unsigned access = access_for(p);
  switch (p.info().kind) {
    case Kind::read_request:
      return check_range(services, qp, p.reth, access);
    case Kind::write:
      // The region may be gone since the first packet: look again at each.
      return check_range(services, qp, p.info().first ? p.reth : qp.responder.target, access);
    case Kind::compare_swap:
    case Kind::fetch_add:
      return check_word(services, qp, p.atomic_eth.address, p.atomic_eth.rkey, access);
    case Kind::atomic_write:
      return check_word(services, qp, p.reth.address, p.reth.rkey, access);
    case Kind::flush:
      if (p.feth.selectivity == packet::Selectivity::range) {
        return check_range(services, qp, p.reth, access);
      }
      // The whole region: the address is not looked at.
      if (const MemoryRegion* region = services.keys.find(p.reth.rkey)) {
        return check_range(services, qp, {region->iova, p.reth.rkey, 1}, access);
      }
      return kNoAccess;
    default:
      return {};
  }
}

}  // namespace verbena::engine
