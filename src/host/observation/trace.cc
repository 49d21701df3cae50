#include "host/observation/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <variant>

#include "host/clock.h"
#include "host/observation/first_line.h"
#include "host/observation/frame_fields.h"
#include "host/observation/json.h"
#include "host/observation/program_name.h"
#include "host/observation/way_names.h"
#include "host/queue_pair.h"
#include "packet/mad.h"

namespace verbena::host {
namespace {

constexpr int kVersion = 2;

/// IBV_WR_*.
constexpr std::array<std::string_view, 12> kSendKinds{"SEND",
                                                      "SEND_WITH_IMM",
                                                      "SEND_WITH_INV",
                                                      "RDMA_WRITE",
                                                      "RDMA_WRITE_WITH_IMM",
                                                      "RDMA_READ",
                                                      "ATOMIC_CMP_AND_SWP",
                                                      "ATOMIC_FETCH_AND_ADD",
                                                      "ATOMIC_WRITE",
                                                      "FLUSH",
                                                      "LOCAL_INV",
                                                      "BIND_MW"};

/// IBV_WC_* of opcodes.
constexpr std::array<std::string_view, 11> kCompletionKinds{
    "SEND",  "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD",         "ATOMIC_WRITE",
    "FLUSH", "LOCAL_INV",  "BIND_MW",   "RECV",      "RECV_RDMA_WITH_IMM"};

/// IBV_WC_* of statuses.
constexpr std::array<std::string_view, 22> kStatuses{
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};

template <std::size_t N, typename E>
std::string_view name_in(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}

std::int64_t nanoseconds(Instant at) { return at.time_since_epoch().count(); }

std::uint64_t bytes_of(std::span<const engine::Sge> sges) {
  std::uint64_t bytes = 0;
  for (const engine::Sge& s : sges) bytes += s.length;
  return bytes;
}

std::int64_t wall_clock() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// `r` is the request as it was posted or as it lies in the queue.
template <typename Request>
std::string fields_of_send(const engine::QueuePair& qp, const Request& r, std::uint64_t bytes) {
  return fmt::format(
      R"(,"qp":{},"wr_id":"{}","op":"{}","bytes":{},"signaled":{},"inline":{},"fence":{},)"
      R"("solicited":{})",
      quoted(qp.qpn), r.wr_id, name_in(kSendKinds, r.kind), bytes, r.signaled || qp.signal_all,
      r.inlined, r.fence, r.solicited);
}

std::string fields_of_receive(const engine::ReceiveRequest& r) {
  return fmt::format(R"(,"wr_id":"{}","bytes":{})", r.wr_id, bytes_of(r.sges));
}

std::string qp_field(Qpn qpn) { return fmt::format(R"(,"qp":{})", quoted(qpn)); }

std::string peer_field(const IpAddress& peer) {
  return fmt::format(R"(,"peer":"{}")", gid_text(peer));
}

/// The peer of a connected one, from RTR on.
std::string path_fields(const engine::QueuePair& qp) {
  const packet::Flow& flow = qp.attributes.flow;
  const bool connected = qp.type != engine::QpType::ud && qp.type != engine::QpType::raw_packet;
  if (!connected || flow.destination == IpAddress{}) return "";
  return fmt::format(R"(,"local":"{}","peer":"{}","peer_qp":{},"mtu":{})", gid_text(flow.source),
                     gid_text(flow.destination), quoted(qp.attributes.dest_qpn),
                     qp.attributes.path_mtu);
}

}  // namespace

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path) {
  auto file = SharedLogFile::open(path);
  if (!file) return Error{file.error().code, "trace " + file.error().message};
  std::unique_ptr<Trace> trace{new Trace{std::move(file).value()}};
  trace->begin();
  trace->write();
  if (!trace->error_.empty()) {
    return Error{EIO, "trace: " + trace->error_ + "; make room or name another file"};
  }
  return trace;
}

void Trace::begin() {
  const Instant at = now();
  end(line(at, "start") + fmt::format(R"(,"version":{},"wall":{},"program":{},"host":{},"boot":{})",
                                      kVersion, wall_clock(), json_quoted(program_name()),
                                      json_quoted(host_name()),
                                      json_quoted(first_line("/proc/sys/kernel/random/boot_id"))));
}

std::string Trace::line(Instant at, std::string_view event) const {
  return fmt::format(R"({{"t":{},"pid":{},"event":"{}")", nanoseconds(at), pid_, event);
}

void Trace::end(std::string line) {
  line += "}\n";
  const std::lock_guard lock{mutex_};
  buffer_ += line;
}

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::SendRequest& r) {
  end(line(at, "post_send") + fields_of_send(qp, r, bytes_of(r.sges)));
}

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::SendWqe& wqe) {
  end(line(at, "post_send") + fields_of_send(qp, wqe.request, wqe.length));
}

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::ReceiveRequest& r) {
  end(line(at, "post_recv") + qp_field(qp.qpn) + fields_of_receive(r));
}

void Trace::posted(Instant at, const engine::SharedReceiveQueue& srq,
                   const engine::ReceiveRequest& r) {
  end(line(at, "post_recv") + fmt::format(R"(,"srq":{})", srq.number) + fields_of_receive(r));
}

void Trace::message_sent(const packet::Flow& flow, const packet::Packet& p, bool again) {
  end(line(now(), "sent") + qp_field(packet::kGsiQpn) + packet_fields(p, p.payload.size()) +
      message_fields(p,
                     {.local = flow.source, .remote = flow.destination, .qpn = p.bth.destination}) +
      fmt::format(R"(,"again":{})", again));
}

void Trace::message_received(Instant at, const packet::Datagram& d) {
  const auto parsed = packet::parse(d.bytes);
  const auto* p = std::get_if<packet::Packet>(&parsed);
  if (p == nullptr) return;
  end(line(at, "received") + qp_field(packet::kGsiQpn) + packet_fields(*p, p->payload.size()) +
      message_fields(*p, {.local = d.destination, .remote = d.source, .qpn = p->deth.source}));
}

void Trace::message_dropped(std::string_view reason, const packet::Datagram& d) {
  end(line(now(), "dropped") + fmt::format(R"(,"reason":"{}")", reason) +
      qp_field(packet::kGsiQpn) + frame_fields(d.bytes));
}

void Trace::created(const engine::QueuePair& qp) { state(qp, "", name_of(engine::QpState::reset)); }

void Trace::destroyed(const engine::QueuePair& qp) {
  state(qp, name_of(qp.state.load()), "DESTROYED");
}

void Trace::sent(const engine::QueuePair& qp, const packet::Flow& flow, const packet::Packet& p,
                 std::size_t payload, bool again) {
  end(line(now(), "sent") + qp_field(qp.qpn) + packet_fields(p, payload) +
      fmt::format(R"(,"again":{},"headers":"{}")", again, hex_of_headers(p)) +
      (qp.type == engine::QpType::ud ? peer_field(flow.destination) : ""));
}

void Trace::received(const engine::QueuePair& qp, const packet::Datagram& datagram,
                     const packet::Packet& p) {
  const auto headers = datagram.bytes.first(packet::header_size(p.bth.opcode));
  end(line(now(), "received") + qp_field(qp.qpn) + packet_fields(p, p.payload.size()) +
      fmt::format(R"(,"headers":"{}")", hex(headers)) +
      (qp.type == engine::QpType::ud ? peer_field(datagram.source) : ""));
}

void Trace::dropped(const engine::DroppedFrame& frame) {
  std::string text = line(now(), "dropped") + fmt::format(R"(,"reason":"{}")", frame.reason);
  if (frame.qp != nullptr) text += qp_field(frame.qp->qpn);
  if (frame.packet != nullptr) {
    text += packet_fields(*frame.packet, frame.packet->payload.size()) +
            fmt::format(R"(,"headers":"{}")", hex_of_headers(*frame.packet));
  } else if (frame.qp != nullptr) {  // Ethernet's
    text += fmt::format(R"(,"bytes":{})", frame.bytes.size());
  } else {
    text += frame_fields(frame.bytes);
  }
  end(std::move(text));
}

void Trace::dropped(std::string_view reason, const packet::Datagram& d) {
  end(line(now(), "dropped") + fmt::format(R"(,"reason":"{}")", reason) + frame_fields(d.bytes));
}

void Trace::struck(wire::Fault what, std::span<const std::uint8_t> frame) {
  end(line(now(), "fault") + fmt::format(R"(,"kind":"{}")", name_of(what)) + frame_fields(frame));
}

void Trace::retried(const engine::QueuePair& qp, engine::RetryCause cause, Psn from) {
  end(line(now(), "retry") + qp_field(qp.qpn) +
      fmt::format(R"(,"cause":"{}","psn":{})", name_of(cause), from.value()));
}

void Trace::chose_way(const engine::QueuePair& qp, packet::Course course) {
  const std::string_view why = name_of(course.detour);
  end(line(now(), "way") + qp_field(qp.qpn) +
      fmt::format(R"(,"of":"requests","way":"{}")", name_of(course.way)) +
      (why.empty() ? "" : fmt::format(R"(,"why":"{}")", why)));
}

void Trace::answers_by(const engine::QueuePair& qp, packet::Way way) {
  end(line(now(), "way") + qp_field(qp.qpn) +
      fmt::format(R"(,"of":"answers","way":"{}")", name_of(way)));
}

void Trace::completed(const engine::Completion& c) {
  end(line(now(), "completion") + qp_field(c.qpn) +
      fmt::format(R"(,"wr_id":"{}","status":"{}","op":"{}","bytes":{})", c.wr_id,
                  name_in(kStatuses, c.status), name_in(kCompletionKinds, c.kind), c.byte_count));
}

void Trace::state_changed(const engine::QueuePair& qp, engine::QpState from, engine::QpState to) {
  state(qp, name_of(from), name_of(to));
}

void Trace::state(const engine::QueuePair& qp, std::string_view from, std::string_view to) {
  const std::string& device = host_of(qp).device;
  end(line(now(), "state") + qp_field(qp.qpn) +
      fmt::format(R"(,"from":"{}","to":"{}","type":"{}")", from, to, name_of(qp.type)) +
      (device.empty() ? "" : R"(,"device":)" + json_quoted(device)) + path_fields(qp));
}

void Trace::write() {
  const std::lock_guard lock{mutex_};
  if (buffer_.empty()) return;
  const auto written = file_.append(buffer_);
  if (!written && error_.empty()) error_ = written.error().message;
  buffer_.clear();
}

}  // namespace verbena::host
