// The consumer: steps 1, 4 and 5.

#include <time.h>

#include <cerrno>
#include <deque>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/inference-ring/settings.h"

namespace {

/// Stands for the model: an accelerator is busy that long, and this thread only waits for it.
void infer(std::chrono::nanoseconds duration) {
  timespec left{.tv_sec = duration / std::chrono::seconds{1},
                .tv_nsec = duration % std::chrono::seconds{1} / std::chrono::nanoseconds{1}};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

class Consumer {
 public:
  Consumer(const lab::Options& options, rdma::ConnectionRequest& request)
      : options_{options},
        batches_{lab::offered<Plan>(request).batches},
        pd_{request.context()},
        ring_{pd_, options.size * settings.slots, rdma::Access::remote_write},
        connection_{accept(request)} {}

  /// 4. Batches come in their order. What is in a slot must be its batch, before the model has
  ///    looked at it and still afterwards.
  void run() {
    lab::Work work;
    for (std::uint64_t next = 0; next < 2 * batches_; ++next) {
      const std::uint32_t id = wait_for_batch();
      lab::check(id == next, "got batch {} instead of {}", id, next);
      const auto slot = ring_.bytes().subspan(id % settings.slots * options_.size, options_.size);
      const auto whole = [&] { return lab::first_difference(slot, id) == slot.size(); };
      const bool came_whole = whole();
      infer(is_slow(id) ? settings.stall : settings.work);
      if (!came_whole || !whole()) ++overwritten_;
      lab::check(overwritten_ == 0 || !settings.credits, "batch {} was overwritten in its slot",
                 id);
      // 5. The slot is free: a receive for the batch that will be in it, then the credit.
      connection_.post(rdma::Recv{}).check();
      tell(static_cast<std::uint32_t>(next + 1));
    }
    work.done({.needed = 2 * batches_});
    tell(kReport | static_cast<std::uint32_t>(overwritten_));
    lab::wait_for_goodbye(options_, connection_);
    lab::say("consumed {} batches in {} slots, {} of them overwritten", 2 * batches_,
             settings.slots, overwritten_);
  }

 private:
  static constexpr std::uint32_t kDepth = 64;  // credits in flight; each of half as many signalled

  /// 1. The ring is the capability. A receive per slot: each batch's word uses one up.
  rdma::Connection accept(rdma::ConnectionRequest& request) {
    rdma::ConnectionOptions answer = lab::within(options_);
    answer.pd = &pd_;
    answer.send_depth = kDepth;
    answer.recv_depth = settings.slots + (settings.credits ? 0 : kBeyond);
    answer.prepare = [&](rdma::Connection& connection) {
      for (std::uint32_t i = 0; i < answer.recv_depth; ++i) {
        connection.post(rdma::Recv{}).check();
      }
    };
    answer.offer(Offer{ring_.remote(), settings.slots});
    return lab::accept(options_, request, answer);
  }

  [[nodiscard]] bool is_slow(std::uint64_t id) const {
    return id >= batches_ && (id - batches_) % settings.stall_every == settings.stall_every / 2;
  }
  std::uint32_t wait_for_batch() {
    while (arrived_.empty()) take_completion();
    const std::uint32_t id = arrived_.front();
    arrived_.pop_front();
    return id;
  }
  void take_completion() {
    const auto done = connection_.wait(options_.deadline);
    lab::in_time(done.has_value(), "a batch from the producer");
    lab::check(done->ok() || connection_.connected(), "the producer hung up");
    done->check();
    if (!done->is_receive()) {
      sent_ = done->id();  // and all before it
      return;
    }
    arrived_.push_back(done->imm());
  }
  /// A WRITE of no bytes. Its room in the queue comes back with the next signalled one.
  void tell(std::uint32_t word) {
    while (told_ - sent_ == kDepth) take_completion();
    rdma::Write write{rdma::RemoteBuffer{}};
    write.imm(word).id(++told_);
    if (told_ % (kDepth / 2) == 0) write.signaled();
    connection_.post(write).check();
  }

  /// Without credits more words than slots are under way.
  static constexpr std::uint32_t kBeyond = 512;

  const lab::Options& options_;
  std::uint64_t batches_;
  rdma::ProtectionDomain pd_;
  rdma::Buffer ring_;
  rdma::Connection connection_;
  std::deque<std::uint32_t> arrived_;  // ids of batches
  std::uint64_t told_ = 0, sent_ = 0;  // words
  std::uint64_t overwritten_ = 0;
};

}  // namespace

void consumer(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  rdma::ConnectionRequest request = lab::next_request(options, listener);
  Consumer{options, request}.run();
}
