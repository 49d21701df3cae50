#pragma once

// Serves the peer's requests (IBA 9.7.3 … 9.7.5, responder side): a chain of small checks,
// each of which may refuse; then execution; then at most one answer for many requests.
//
//   psn == expected : check, execute, acknowledge if asked
//   psn older       : a duplicate: acknowledge again, never execute again (READ: read again)
//   psn newer       : one NAK, then silence until the gap is filled

#include <cstdint>
#include <deque>
#include <optional>

#include "base/numbers.h"
#include "base/psn.h"
#include "engine/requester.h"
#include "packet/aeth.h"
#include "packet/opcode.h"
#include "packet/packet.h"

namespace verbena::engine {

/// A READ that is being answered.
struct ReadJob {
  Psn psn{};  // of the next response
  std::uint64_t address = 0;
  Key rkey{};
  std::uint32_t length = 0;
  std::uint32_t sent = 0;
  std::uint32_t msn = 0;
};

struct Responder {
  Psn expected{};
  std::uint32_t msn = 0;
  bool nak_sent = false;  // for `expected`

  // The message that is arriving; none between messages.
  packet::Kind message = packet::Kind::none;
  std::uint32_t received = 0;
  packet::Reth target{};  // of a WRITE

  // What is to be sent: READ responses in order, then the answer to everything up to now.
  std::deque<ReadJob> reads;
  std::optional<packet::Syndrome> answer;
};

void handle_request(Services& services, QueuePair& qp, const packet::Packet& p);

/// Sends READ responses and the answer, at most `budget` packets.
[[nodiscard]] Sent transmit_responses(Services& services, QueuePair& qp, packet::FrameSink& sink,
                                      unsigned budget);

}  // namespace verbena::engine
