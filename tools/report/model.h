#pragma once

// What a report shows: the events of queue pairs and their peers, in the order of time.
//
//   traces (trace_reader) ─┐
//                          ├─► Model ─► ladder (text), svg, page (HTML), summary
//   captures (capture_reader) ┘

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace verbena::report {

/// Nanoseconds since the first event of the report.
using Time = std::int64_t;
inline constexpr Time kNever = std::numeric_limits<Time>::min();
inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// A file that the report was made of.
struct Source {
  std::string file;
  std::string host;      // empty: a capture doesn't say
  Time offset = 0;       // added to its clock; 0 for the first
  bool shifted = false;  // the offset was found by matching packets
};

/// One end of a conversation: a queue pair, or what a capture shows of one.
struct End {
  std::uint32_t qpn = 0;  // 0: unknown
  std::string program;    // "rping 4711"; empty: not traced
  std::string device;
  std::string address;  // GID or IP address
  bool traced = false;  // its posts and completions are known
  bool shared = false;  // a shared receive queue: `qpn` is its number

  /// The other end of a shared receive queue, or of a queue pair that met no other.
  [[nodiscard]] bool is_nobody() const { return qpn == 0 && !traced && address.empty(); }
};

enum class Side : std::uint8_t { left, right };
[[nodiscard]] constexpr Side other(Side s) { return s == Side::left ? Side::right : Side::left; }

/// Two queue pairs that talk to each other. The left one asked for the connection, or posted first.
struct Conversation {
  End left;
  End right;
  std::string type;       // "RC", "UD", …
  std::uint32_t mtu = 0;  // 0: unknown
  [[nodiscard]] const End& end(Side s) const { return s == Side::left ? left : right; }
};

enum class EventKind : std::uint8_t {
  post_send,
  post_receive,
  packet,
  retry,
  completion,
  state,
};

/// What became of a packet, and what it is a sign of.
struct PacketFlags {
  bool again = false;      // a request that had left before
  bool lost = false;       // it was sent and never arrived, or arrived damaged
  bool duplicate = false;  // the receiver had it already
  bool dropped = false;    // it arrived, and the receiver dropped it: `note` has the reason
  bool not_taken = false;  // it arrived while one before it was missing or refused
  bool ignored = false;    // an acknowledgement that nothing waited for, or waits for any more
  bool ack_request = false;
  bool response = false;    // an acknowledgement, a READ response, …
  bool connection = false;  // a message of the connection manager
  bool nak = false;         // a NAK other than RNR
  bool rnr = false;         // receiver not ready
  // Seen at one point only: when it left or arrived is not known apart.
  bool one_sided_view = false;
};

struct Event {
  EventKind kind = EventKind::packet;
  Side side = Side::left;  // who posted, sent, retried, completed, changed its state
  std::uint32_t conversation = 0;
  Time time = 0;                  // of a packet: when it left, or else when it arrived
  Time arrived = kNever;          // of a packet
  std::uint32_t request = kNone;  // place in Model::requests, of what belongs to one
  // Of a packet:
  std::uint8_t opcode = 0;
  std::uint32_t psn = 0;
  std::uint32_t bytes = 0;  // payload; of posts and completions: of the request
  PacketFlags flags;
  // From the BTH on, without payload; of a connection message with the MAD.
  std::vector<std::uint8_t> headers;
  // What happened, as people read it: the op of a post ("RDMA_WRITE"), the cause of a retry
  // ("timeout", as in the trace), the status of a completion ("RETRY_EXC_ERR"), "INIT → RTR",
  // "RTS → ERR, disconnected"; of a packet its opcode without the service ("WRITE only"), what an
  // acknowledgement says ("ACK", "NAK, remote access error", "RNR NAK, wait 640 µs") or the
  // connection message ("ConnectRequest").
  std::string what;
  // The reason of a drop ("drop_no_receive", as in the trace) or of a fault; of posts and
  // completions the wr_id.
  std::string note;
  bool receive = false;  // of a completion: a receive's
  bool signaled = true;  // of a post to the send queue: it completes also with success
};

/// A work request of a send queue, from its post to its completion.
struct Request {
  std::uint32_t conversation = 0;
  Side side = Side::left;
  std::string wr_id;
  std::string op;  // "RDMA_WRITE"
  std::uint64_t bytes = 0;
  Time posted = kNever;
  Time first_sent = kNever;
  Time last_sent = kNever;
  Time completed = kNever;  // when its completion was there; kNever for one without
  std::string status;       // of its completion; or what else is known of its end
  bool failed = false;
  std::uint32_t packets = 0;        // of the request, each once
  std::uint32_t packets_again = 0;  // that left again
  // Where its time went, together posted to completed (or to its acknowledgement):
  Time waiting = 0;  // posted, and nothing of it sent yet
  Time on_the_wire = 0;
  Time repeating = 0;  // from when the first lost packet left to when the last repetition did
};

struct Model {
  std::vector<Source> sources;
  std::vector<Conversation> conversations;
  std::vector<Event> events;  // in the order of `time`
  std::vector<Request> requests;
  std::int64_t wall = 0;  // ns since 1970 of time 0; 0: unknown
  // About the files: a broken last line, packets that were no RoCE.
  std::vector<std::string> remarks;
};

}  // namespace verbena::report
