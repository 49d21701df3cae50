#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "engine/observer.h"
#include "engine/queue_pair.h"
#include "engine/shared_receive_queue.h"
#include "engine/work_request.h"
#include "system/output_file.h"

namespace verbena::host {

/// Posts, frames, retries, completions and changes of state as lines of JSON;
/// docs/observing.md has the fields. Never in the way of traffic: when the file can't take more,
/// it ends. Any thread.
class Trace final : public engine::Observer {
 public:
  static Result<std::unique_ptr<Trace>> open(const std::string& path);

  // By the program, at the instant `at`.
  void posted(Instant at, const engine::QueuePair& qp, const engine::SendRequest& r);
  void posted(Instant at, const engine::QueuePair& qp, const engine::SendWqe& wqe);
  void posted(Instant at, const engine::QueuePair& qp, const engine::ReceiveRequest& r);
  void posted(Instant at, const engine::SharedReceiveQueue& srq, const engine::ReceiveRequest& r);

  // engine::Observer
  void sent(const engine::QueuePair& qp, const packet::Packet& p, std::size_t payload,
            bool again) override;
  void received(const engine::QueuePair& qp, const packet::Packet& p) override;
  void retried(const engine::QueuePair& qp, engine::RetryCause cause, Psn from) override;
  void completed(const engine::Completion& c) override;
  void state_changed(const engine::QueuePair& qp, engine::QpState from,
                     engine::QpState to) override;

  /// Hands what was gathered to the kernel.
  void write();

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  /// Why it ended early; empty: it hasn't. Of whoever calls write().
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  explicit Trace(OutputFile file) : file_{std::move(file)} {}
  void begin();
  void add(std::string_view line);
  void frame(const char* event, const engine::QueuePair& qp, const packet::Packet& p,
             std::size_t payload, const char* more);

  std::mutex mutex_;
  OutputFile file_;
  std::string buffer_;
  std::string error_;
};

}  // namespace verbena::host
