#include "tools/report/rules.h"

#include <array>

#include "packet/aeth.h"
#include "packet/bth.h"
#include "packet/opcode.h"
#include "tools/report/packet_headers.h"

namespace verbena::report {
namespace {

enum Place : std::uint8_t {
  none,
  duplicate,
  sequence_nak,
  invalid_request,
  remote_access,
  remote_operational,
  rnr,
  dropped,
  dropped_too_long,
  again,
  lost_reliable,
  gap_unreliable,
  early,
  missing_response,
  gave_up,
  acknowledge,
  response,
  read,
  atomic,
  empty,
  write,
  send,
  part,
  datagram,
  mark,
  connect_request,
  connect_receipt,
  connect_reject,
  connect_reply,
  connect_ready,
  disconnect_request,
  disconnect_reply,
  connect_again,
  not_taken,
};

struct Entry {
  Place place;
  Rule rule;
};

constexpr auto kEntries = std::to_array<Entry>({
    {none, {"", ""}},
    {duplicate,
     {"C9-105 ff.",
      "What was executed is acknowledged again, never executed again. A READ is read again; an "
      "atomic gets the saved result."}},
    {sequence_nak,
     {"IBA 9.7.5.2.8",
      "NAK, PSN sequence error: the responder saw a gap. It says so once, then stays silent until "
      "the gap is filled."}},
    {invalid_request,
     {"C9-72 ff., C9-81, C9-90, C9-97 ff.",
      "NAK, invalid request: the packets of the message don't follow each other, its length is "
      "wrong, the queue pair doesn't permit the operation, or more READs and atomics wait than "
      "agreed."}},
    {remote_access,
     {"C9-104, C9-112",
      "NAK, remote access error: key, protection domain, access and bounds are checked before a "
      "byte moves."}},
    {remote_operational,
     {"IBA 9.7.5.2.8",
      "NAK, remote operational error: the responder could not finish the request for a reason of "
      "its own."}},
    {rnr,
     {"C9-86",
      "The RNR rule: a request that needs a receive takes one, or is told to wait. The requester "
      "sends it again when the time in the NAK is over."}},
    {dropped,
     {"C9-7 ff.",
      "Service, partition, state and source are checked before anything else. A packet that fails "
      "is dropped without an answer."}},
    {dropped_too_long,
     {"C9-186",
      "A datagram that is too long for its receive is dropped without a word; the receive serves "
      "the next one."}},
    {again,
     {"IBA 9.7.6.1.1",
      "The requester sends again from the oldest request without an answer. Each time counts "
      "against retry_cnt."}},
    {lost_reliable,
     {"IBA 9.7.6.1.3",
      "A request whose answer doesn't come within the transport timer counts as lost: between one "
      "and four times 4.096 µs × 2^timeout."}},
    {gap_unreliable,
     {"C9-152",
      "Unreliable connection: a gap ends the message. The next one begins with FIRST or ONLY."}},
    {early,
     {"",
      "No rule of the specification: Verbena sends again before the transport timer ends, because "
      "the answer is overdue by the measured round trip."}},
    {missing_response,
     {"IBA 9.7.5.1.4",
      "An answer to a later request implies that the response before it was lost."}},
    {gave_up,
     {"IBA 9.7.6.1.1",
      "retry_cnt is used up: the request completes with an error and the queue pair goes to ERR."}},
    {acknowledge,
     {"IBA 9.7.5",
      "An ACK acknowledges every request up to its PSN. The MSN counts the messages that the "
      "responder has completed."}},
    {response,
     {"IBA 9.7.5.1.4",
      "A response acknowledges all requests before it. If a response is missing, the requester "
      "asks again from there."}},
    {read,
     {"C9-90, C9-104, C9-112",
      "At most max_dest_rd_atomic READs and atomics may wait. Key, access and bounds are checked "
      "before a byte is read."}},
    {atomic,
     {"C9-90, C9-215",
      "At most max_dest_rd_atomic READs and atomics may wait, and the word is aligned to eight "
      "bytes. A duplicate gets the saved result."}},
    {empty, {"C9-88", "Length 0 touches no memory, so the key is not checked."}},
    {write,
     {"C9-81, C9-104, C9-112",
      "The queue pair must permit WRITEs. Key, protection domain, access and bounds are checked "
      "before a byte moves."}},
    {send,
     {"C9-86", "A SEND takes a receive of the peer. If there is none, the peer tells it to wait."}},
    {part,
     {"C9-72 ff., C9-97 ff.",
      "FIRST, MIDDLE and LAST follow each other and are of one kind. FIRST and MIDDLE are full; "
      "LAST isn't empty."}},
    {datagram, {"C9-171", "A datagram message is one packet, at most an MTU long."}},
    {mark,
     {"IBA 9.2.1",
      "An opcode of the manufacturer's range: Verbena asks whether the datagrams before it were "
      "taken. Other peers drop it."}},
    {connect_request,
     {"IBA 12.6.5",
      "REQ asks for a connection: it brings the queue pair, the first PSN, the path and the "
      "private "
      "data."}},
    {connect_receipt, {"IBA 12.6.6", "MRA: the message has arrived, the answer takes longer."}},
    {connect_reject, {"IBA 12.6.7", "REJ refuses the connection and says why."}},
    {connect_reply,
     {"IBA 12.6.8", "REP accepts the request: it brings the other queue pair and its first PSN."}},
    {connect_ready,
     {"IBA 12.6.9", "RTU: the reply has arrived, and the active end is ready to send."}},
    {disconnect_request,
     {"IBA 12.6.10", "DREQ ends the connection. The queue pairs are moved to ERR at both ends."}},
    {disconnect_reply, {"IBA 12.6.11", "DREP: the end of the connection is known at both ends."}},
    {connect_again,
     {"IBA 12.9.8.7",
      "A message without an answer is sent again each interval, as many times as the REQ says."}},
    {not_taken,
     {"IBA 9.7.5.2.8",
      "A packet before this one is missing or was refused. The responder throws this one away, "
      "because it takes requests in the order of their PSNs only."}},
});
static_assert(kEntries.size() == not_taken + 1);

/// Place in it: Place. A wrong order doesn't compile.
constexpr auto kRules = [] {
  std::array<Rule, kEntries.size()> rules;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (kEntries[i].place != i) throw "kEntries is not in the order of Place";
    rules[i] = kEntries[i].rule;
  }
  return rules;
}();

using packet::Kind;
using packet::NakCode;
using packet::OpcodeInfo;
using packet::Service;

Place rule_of_nak(const Event& e) {
  const auto syndrome = syndrome_of(e);
  if (!syndrome) return none;
  switch (syndrome->nak_code()) {
    case NakCode::psn_sequence_error:
      return sequence_nak;
    case NakCode::invalid_request:
    case NakCode::invalid_rd_request:
      return invalid_request;
    case NakCode::remote_access_error:
      return remote_access;
    case NakCode::remote_operational_error:
      return remote_operational;
  }
  return none;
}

Place rule_of_request(const Event& e, const OpcodeInfo& info) {
  if (info.kind == Kind::compare_swap || info.kind == Kind::fetch_add) return atomic;
  if (info.kind == Kind::read_request) return read;
  if (info.service == Service::ud) return datagram;
  if (!info.first || info.kind == Kind::none) return info.known() ? part : none;
  if (info.kind == Kind::send) return send;
  return e.bytes == 0 && info.last && info.kind == Kind::write ? empty : write;
}

Place rule_of_connection(const Event& e) {
  if (e.flags.again) return connect_again;
  if (e.what == "ConnectRequest") return connect_request;
  if (e.what == "MsgRcptAck") return connect_receipt;
  if (e.what == "ConnectReject") return connect_reject;
  if (e.what == "ReadyToUse") return connect_ready;
  if (e.what == "DisconnectRequest") return disconnect_request;
  if (e.what == "DisconnectReply") return disconnect_reply;
  return e.what == "ConnectReply" ? connect_reply : none;
}

Place rule_of_packet(const Event& e) {
  const OpcodeInfo& info = packet::info_of(static_cast<packet::Opcode>(e.opcode));
  const bool unreliable = info.service == Service::uc || info.service == Service::ud;
  if (e.flags.dropped) return e.note == "drop_too_long" ? dropped_too_long : dropped;
  if (e.flags.not_taken) return not_taken;
  if (e.flags.rnr) return rnr;
  if (e.flags.nak) return rule_of_nak(e);
  if (e.flags.duplicate && !unreliable) return duplicate;
  if (e.flags.connection) return rule_of_connection(e);
  if (!info.known()) return none;
  if (info.is_mark()) return mark;
  if (e.flags.lost && info.service == Service::uc) return gap_unreliable;
  if (e.flags.again) return again;
  if (e.flags.lost && !unreliable) return lost_reliable;
  if (info.kind == Kind::acknowledge) return acknowledge;
  if (info.is_response()) return response;
  return info.is_request() ? rule_of_request(e, info) : none;
}

Place rule_of_retry(const Event& e) {
  if (e.what == "early") return early;
  if (e.what == "sequence_nak") return sequence_nak;
  if (e.what == "missing_response") return missing_response;
  if (e.what == "rnr_nak") return rnr;
  return lost_reliable;
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

std::uint8_t rule_of(const Event& event) {
  switch (event.kind) {
    case EventKind::packet:
      return rule_of_packet(event);
    case EventKind::retry:
      return rule_of_retry(event);
    case EventKind::completion:
      return event.what == "RETRY_EXC_ERR" ? gave_up : none;
    case EventKind::post_send:
    case EventKind::post_receive:
    case EventKind::state:
      return none;
  }
  return none;
}

}  // namespace verbena::report
