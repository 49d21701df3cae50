#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/time.h"
#include "engine/observer.h"
#include "engine/queue_pair.h"
#include "engine/shared_receive_queue.h"
#include "engine/work_request.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "system/shared_log_file.h"
#include "wire/observer.h"

namespace verbena::host {

/// Posts, frames, connection messages, faults, retries, completions and changes of state as lines
/// of JSON; docs/observing.md has the fields. Never in the way of traffic: when the file can't take
/// more, it ends. Any thread. The queue pairs that it is told of are the host's.
class Trace final : public engine::Observer, public wire::Observer {
 public:
  /// Other processes may write to the same file.
  static Result<std::unique_ptr<Trace>> open(const std::string& path);

  // By the program, at the instant `at`.
  void posted(Instant at, const engine::QueuePair& qp, const engine::SendRequest& r);
  void posted(Instant at, const engine::QueuePair& qp, const engine::SendWqe& wqe);
  void posted(Instant at, const engine::QueuePair& qp, const engine::ReceiveRequest& r);
  void posted(Instant at, const engine::SharedReceiveQueue& srq, const engine::ReceiveRequest& r);

  // Management datagrams, of QP 1.
  /// Its payload is in `p`.
  void message_sent(const packet::Flow& flow, const packet::Packet& p, bool again);
  void message_received(Instant at, const packet::Datagram& d);
  void message_dropped(std::string_view reason, const packet::Datagram& d);

  // engine::Observer
  void created(const engine::QueuePair& qp) override;
  void destroyed(const engine::QueuePair& qp) override;
  void sent(const engine::QueuePair& qp, const packet::Flow& flow, const packet::Packet& p,
            std::size_t payload, bool again) override;
  void received(const engine::QueuePair& qp, const packet::Datagram& datagram,
                const packet::Packet& p) override;
  void dropped(const engine::DroppedFrame& frame) override;
  void retried(const engine::QueuePair& qp, engine::RetryCause cause, Psn from) override;
  void chose_way(const engine::QueuePair& qp, packet::Course course) override;
  void answers_by(const engine::QueuePair& qp, packet::Way way) override;
  void completed(const engine::Completion& c) override;
  void state_changed(const engine::QueuePair& qp, engine::QpState from,
                     engine::QpState to) override;

  // wire::Observer
  void dropped(std::string_view reason, const packet::Datagram& d) override;
  void struck(wire::Fault what, std::span<const std::uint8_t> frame) override;

  /// Hands what was gathered to the kernel.
  void write();

  /// Why it ended early; empty: it hasn't. Of whoever calls write().
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  explicit Trace(SharedLogFile file) : file_{std::move(file)} {}
  void begin();
  /// A line as it begins.
  [[nodiscard]] std::string line(Instant at, std::string_view event) const;
  void end(std::string line);
  void state(const engine::QueuePair& qp, std::string_view from, std::string_view to);

  const pid_t pid_ = ::getpid();
  std::mutex mutex_;
  SharedLogFile file_;
  std::string buffer_;
  std::string error_;
};

}  // namespace verbena::host
