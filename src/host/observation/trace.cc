#include "host/observation/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "host/clock.h"
#include "packet/print.h"

namespace verbena::host {
namespace {

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

}  // namespace

Result<std::unique_ptr<Trace>> Trace::open(const std::string& path) {
  auto file = OutputFile::open(path);
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
  add(fmt::format(R"({{"t":{},"event":"start","wall":{},"pid":{}}})", nanoseconds(now()),
                  wall_clock(), getpid()));
}

void Trace::add(std::string_view line) {
  const std::lock_guard lock{mutex_};
  buffer_.append(line).append("\n");
}

namespace {

/// `r` is the request as it was posted or as it lies in the queue.
template <typename Request>
std::string line_of_send(Instant at, const engine::QueuePair& qp, const Request& r,
                         std::uint64_t bytes) {
  return fmt::format(
      R"({{"t":{},"event":"post_send","qp":{},"wr_id":{},"op":"{}","bytes":{},"signaled":{},)"
      R"("inline":{},"fence":{},"solicited":{}}})",
      nanoseconds(at), qp.qpn.value(), r.wr_id, name_in(kSendKinds, r.kind), bytes,
      r.signaled || qp.signal_all, r.inlined, r.fence, r.solicited);
}

}  // namespace

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::SendRequest& r) {
  add(line_of_send(at, qp, r, bytes_of(r.sges)));
}

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::SendWqe& wqe) {
  add(line_of_send(at, qp, wqe.request, wqe.length));
}

void Trace::posted(Instant at, const engine::QueuePair& qp, const engine::ReceiveRequest& r) {
  add(fmt::format(R"({{"t":{},"event":"post_recv","qp":{},"wr_id":{},"bytes":{}}})",
                  nanoseconds(at), qp.qpn.value(), r.wr_id, bytes_of(r.sges)));
}

void Trace::posted(Instant at, const engine::SharedReceiveQueue& srq,
                   const engine::ReceiveRequest& r) {
  add(fmt::format(R"({{"t":{},"event":"post_recv","srq":{},"wr_id":{},"bytes":{}}})",
                  nanoseconds(at), srq.number, r.wr_id, bytes_of(r.sges)));
}

void Trace::frame(const char* event, const engine::QueuePair& qp, const packet::Packet& p,
                  std::size_t payload, const char* more) {
  std::string line = fmt::format(
      R"({{"t":{},"event":"{}","qp":{},"destination_qp":{},"opcode":"{}","psn":{},"bytes":{},)"
      R"("ack_request":{}{})",
      nanoseconds(now()), event, qp.qpn.value(), p.bth.destination.value(), p.info().name,
      p.bth.psn.value(), payload, p.bth.ack_request, more);
  if (p.info().aeth) {
    fmt::format_to(std::back_inserter(line), R"(,"syndrome":"{}","msn":{})",
                   packet::text(p.aeth.syndrome), p.aeth.msn);
  }
  add(line.append("}"));
}

void Trace::sent(const engine::QueuePair& qp, const packet::Packet& p, std::size_t payload,
                 bool again) {
  frame("sent", qp, p, payload, again ? R"(,"again":true)" : R"(,"again":false)");
}

void Trace::received(const engine::QueuePair& qp, const packet::Packet& p) {
  frame("received", qp, p, p.payload.size(), "");
}

void Trace::retried(const engine::QueuePair& qp, engine::RetryCause cause, Psn from) {
  add(fmt::format(R"({{"t":{},"event":"retry","qp":{},"cause":"{}","psn":{}}})", nanoseconds(now()),
                  qp.qpn.value(), name_of(cause), from.value()));
}

void Trace::completed(const engine::Completion& c) {
  add(fmt::format(
      R"({{"t":{},"event":"completion","qp":{},"wr_id":{},"status":"{}","op":"{}","bytes":{}}})",
      nanoseconds(now()), c.qpn.value(), c.wr_id, name_in(kStatuses, c.status),
      name_in(kCompletionKinds, c.kind), c.byte_count));
}

void Trace::state_changed(const engine::QueuePair& qp, engine::QpState from, engine::QpState to) {
  add(fmt::format(R"({{"t":{},"event":"state","qp":{},"from":"{}","to":"{}"}})", nanoseconds(now()),
                  qp.qpn.value(), name_of(from), name_of(to)));
}

void Trace::write() {
  const std::lock_guard lock{mutex_};
  if (buffer_.empty()) return;
  const auto written = file_.append(buffer_);
  if (!written && error_.empty()) error_ = written.error().message;
  buffer_.clear();
}

}  // namespace verbena::host
