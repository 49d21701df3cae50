#pragma once

// What a request's opcode means to whoever receives it: rules that RC, XRC and UC share.

#include "engine/queue_pair.h"
#include "packet/packet.h"

namespace verbena::engine {

[[nodiscard]] inline bool is_atomic(packet::Kind k) {
  return k == packet::Kind::compare_swap || k == packet::Kind::fetch_add;
}

/// Requests that get a response of their own.
[[nodiscard]] inline bool is_answered(packet::Kind k) {
  return k == packet::Kind::read_request || is_atomic(k) || k == packet::Kind::flush ||
         k == packet::Kind::atomic_write;
}

/// The packet needs a receive that no packet before it took.
[[nodiscard]] inline bool takes_receive(const packet::Packet& p) {
  return (p.info().kind == packet::Kind::send && p.info().first) ||
         (p.info().kind == packet::Kind::write && p.info().immediate);
}

/// True for the last packet of a message that fills or uses up a receive.
[[nodiscard]] inline bool completes_receive(const packet::Packet& p) {
  return p.info().last && (p.info().kind == packet::Kind::send || p.info().immediate);
}

/// The first packet of a SEND or WRITE is accepted.
inline void note_message(Responder& r, const packet::Packet& p) {
  if (!p.info().first) return;
  r.received = 0;
  r.target = p.reth;
}

/// The payload of such a packet is in its place.
inline void note_placed(Responder& r, const packet::Packet& p) {
  r.received += static_cast<std::uint32_t>(p.payload.size());
  r.message = p.info().last ? packet::Kind::none : p.info().kind;
}

/// SEND and WRITE (C9-97 ff., C9-160 ff.): FIRST and MIDDLE are full, LAST isn't empty, nothing is
/// longer than the MTU; and a WRITE is as long as it said.
[[nodiscard]] bool length_fits(const QueuePair& qp, const packet::Packet& p);

}  // namespace verbena::engine
