#pragma once

// The server: steps 1, 2, 4 and 5.

#include <algorithm>
#include <map>

#include "labs/common/clients.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"

namespace srq {

inline std::uint64_t seed_of(std::uint64_t client, std::uint64_t message) {
  return client * 1'000'003 + message;
}

class Server {
 public:
  // 1. One queue of receives, and one completion queue for what they become.
  Server(const lab::Options& options, const rdma::Context& context, std::uint32_t receives)
      : options_{options},
        receives_{receives},
        context_{rdma::Context{context.share()}},
        pd_{context_},
        srq_{pd_, receives, 1},
        cq_{context_, static_cast<int>(receives)},
        room_{pd_, receives * options.size} {
    for (std::uint32_t slot = 0; slot < receives; ++slot) empty_.push_back(slot);
    refill();
  }
  // 2. Every connection draws from them.
  rdma::Connection accept(rdma::ConnectionRequest& request, const lab::Crowd& crowd) {
    rdma::ConnectionOptions answer = lab::within(options_);
    answer.pd = &pd_;
    answer.srq = &srq_;
    answer.recv_cq = &cq_;
    rdma::Connection connection = lab::accept(options_, request, answer);
    senders_[connection.qp().number()] = {crowd.number, 0};
    left_ += crowd.iters;
    return connection;
  }

  // 4. Take messages; refill when the device says that few receives are left, and only then.
  void serve() {
    lab::Work work;
    while (true) {
      while (const auto done = cq_.poll()) take(*done);
      if (left_ == 0) break;
      if (empty_.size() == receives_) {
        ++dry_;  // nobody can send until we post
        refill();
      }
      if (!cq_.armed()) {
        cq_.arm();
        continue;  // what came between poll and arm makes no event
      }
      pollfd waiting[] = {{.fd = cq_.fd(), .events = POLLIN, .revents = 0},
                          {.fd = context_.event_fd(), .events = POLLIN, .revents = 0}};
      const int ready = poll(waiting, 2, rdma::Deadline{options_.deadline}.poll_timeout());
      lab::in_time(ready != 0, "{} more messages", left_);
      if (waiting[0].revents != 0) cq_.take_event();
      if (waiting[1].revents != 0) on_event();
    }
    work.done({.needed = taken_});
    lab::say("{} messages of {} clients through {} receives; {} limit events, {} times dry", taken_,
             senders_.size(), receives_, events_, dry_);
    lab::check(taken_ < receives_ || events_ + dry_ > 0,
               "{} messages, but the limit was never reached", taken_);
  }

 private:
  struct Sender {
    std::uint32_t number;
    std::uint64_t next;
  };

  void refill() {
    for (const std::uint64_t slot : empty_) {
      srq_.post(rdma::Recv{room_.slice(slot * options_.size, options_.size)}.id(slot)).check();
    }
    empty_.clear();
    srq_.set_limit(std::max(receives_ / 4, 1u));  // after the event it is off: set it again
  }
  void on_event() {
    const auto event = context_.next_event(std::chrono::seconds{0});
    if (!event || event->type != IBV_EVENT_SRQ_LIMIT_REACHED || event->object != srq_.raw()) return;
    ++events_;
    while (const auto done = cq_.poll()) take(*done);
    refill();
  }
  // 5. The receive says nothing about who sent it; the queue pair number does. The messages of each
  //    client come in its order, those of several in any.
  void take(const rdma::Completion& done) {
    done.check();
    Sender& sender = senders_.at(done.qp_num);
    lab::check(done.length() == options_.size,
               "{} bytes instead of {}; do both ends have the same --size?", done.length(),
               options_.size);
    lab::check(done.imm() == static_cast<std::uint32_t>(sender.next),
               "client {}: message {} instead of {}", sender.number, done.imm(), sender.next);
    lab::check_pattern(room_.bytes().subspan(done.id() * options_.size, options_.size),
                       seed_of(sender.number, sender.next), "a message");
    ++sender.next;
    ++taken_;
    --left_;
    empty_.push_back(done.id());
  }

  const lab::Options& options_;
  std::uint32_t receives_;
  rdma::Context context_;
  rdma::ProtectionDomain pd_;
  rdma::SharedReceiveQueue srq_;
  rdma::CompletionQueue cq_;
  rdma::Buffer room_;
  std::vector<std::uint64_t> empty_;
  std::map<std::uint32_t, Sender> senders_;
  std::uint64_t left_ = 0, taken_ = 0, events_ = 0, dry_ = 0;
};

}  // namespace srq
