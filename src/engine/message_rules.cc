#include "engine/message_rules.h"

namespace verbena::engine {

bool length_fits(const QueuePair& qp, const packet::Packet& p) {
  const Responder& r = qp.responder;
  const auto size = static_cast<std::uint32_t>(p.payload.size());
  const std::uint32_t mtu = qp.attributes.path_mtu;
  const auto& info = p.info();
  if (size > mtu || (!info.last && size != mtu) || (info.last && !info.first && size == 0)) {
    return false;
  }
  if (info.kind != packet::Kind::write) return true;
  const packet::Reth& reth = info.first ? p.reth : r.target;
  if (reth.length > kMaxMessage) return false;
  const std::uint32_t left = reth.length - (info.first ? 0 : r.received);
  return info.last ? size == left : size < left;
}

}  // namespace verbena::engine
