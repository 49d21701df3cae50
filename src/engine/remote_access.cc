#include "engine/remote_access.h"

namespace verbena::engine {

using packet::Kind;

unsigned access_for(const packet::Packet& p) {
  switch (p.info().kind) {
    case Kind::write:
    case Kind::atomic_write:
      return Access::kRemoteWrite;
    case Kind::read_request:
      return Access::kRemoteRead;
    case Kind::compare_swap:
    case Kind::fetch_add:
      return Access::kRemoteAtomic;
    case Kind::flush:
      return (p.feth.global_visibility ? Access::kFlushGlobal : 0) |
             (p.feth.persistence ? Access::kFlushPersistent : 0);
    default:
      return 0;
  }
}

PdId remote_pd(const QueuePair& qp) {
  return qp.type == QpType::xrc_receive ? qp.responder.xrc_srq->pd : qp.pd;
}

const MemoryRegion* remote_region(const Services& services, const QueuePair& qp, PdId pd, Key rkey,
                                  std::uint64_t address, std::uint64_t bytes, unsigned access) {
  const MemoryRegion* region = services.keys.find(rkey);
  const bool granted = region != nullptr && region->bound && region->pd == pd &&
                       (region->type != MemoryRegion::Type::window_2 || region->owner == qp.qpn) &&
                       (region->access & access) == access && region->contains(address, bytes);
  return granted ? region : nullptr;
}

}  // namespace verbena::engine
