#include "engine/responder_duplicates.h"

#include "engine/message_rules.h"
#include "engine/remote_access.h"
#include "engine/responder_checks.h"

namespace verbena::engine {

using packet::Kind;
using packet::Packet;
using packet::Syndrome;

namespace {

/// One past the last PSN of a response.
Psn end_of(const Response& r, std::uint32_t mtu) {
  const std::uint32_t left = r.to == Kind::read_request ? r.source.length - r.sent : 0;
  return r.psn + packets_of(left, mtu);
}

}  // namespace

void handle_duplicate(Services& services, QueuePair& qp, const Packet& p) {
  Responder& r = qp.responder;
  const Kind kind = p.info().kind;
  ++qp.counters.duplicate_request;
  if (!is_answered(kind)) {
    if (!r.answer) r.answer = Syndrome::ack();
    r.answer_by = services.now;
    return;
  }
  Response response{.to = kind, .psn = p.bth.psn, .msn = r.msn, .source = p.reth};
  response.replay = true;
  if (kind == Kind::read_request) {
    const Psn end = p.bth.psn + packets_of(p.reth.length, qp.attributes.path_mtu);
    if (distance(end, r.expected) > 0 || check_permitted(qp, p) || check_srq(services, qp, p) ||
        check_length(qp, p)) {
      return;  // not the READ that we have seen
    }
    // Each packet of the answer checks the key.
    response.pd = remote_pd(qp);
  } else if (is_atomic(kind)) {
    const SavedAtomic* saved =
        r.atomics.find_if([&](const SavedAtomic& s) { return s.psn == p.bth.psn; });
    if (saved == nullptr) return;
    response.original = saved->original;
  }
  // The requester has gone back to here: it has all before this packet, and asks again for what
  // comes after. Answers that end before it are still wanted: several READs may be asked for anew.
  r.responses.remove_if([&](const Response& queued) {
    return distance(end_of(queued, qp.attributes.path_mtu), p.bth.psn) > 0;
  });
  if (r.responses.size() < qp.attributes.max_dest_rd_atomic) r.responses.push_back(response);
}

}  // namespace verbena::engine
