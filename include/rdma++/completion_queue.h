// Where completions come out: by polling, or by waiting for an event.
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "rdma++/checks.h"
#include "rdma++/completion.h"
#include "rdma++/context.h"
#include "rdma++/deadline.h"
#include "rdma++/limits.h"
#include "rdma++/object.h"

namespace rdma {

#ifdef RDMAPP_COUNT_COMPLETIONS
/// What this thread has polled so far, from all queues: for programs that measure themselves.
constinit inline thread_local std::uint64_t completions_taken = 0;
#endif

/// poll() is as thread-safe as ibv_poll_cq; wait(), arm() and take_event() are for one thread.
class CompletionQueue : public Object<ibv_cq> {
 public:
  struct Options {
    bool channel = true;  ///< without one: poll() only
    int vector = 0;       ///< which interrupt of the device, below num_comp_vectors
  };

  CompletionQueue(const Context& context, int depth) : CompletionQueue{context, depth, Options{}} {}
  CompletionQueue(const Context& context, int depth, Options options)
      : Object{create(context, depth, options)} {}

  [[nodiscard]] int depth() const noexcept { return raw()->cqe; }

  /// The data path: fills the front of `room` with what is there.
  [[nodiscard]] std::span<Completion> poll(std::span<Completion> room) const {
    const int count = ibv_poll_cq(raw(), static_cast<int>(room.size()), room.data());
    if (count < 0) [[unlikely]]
      throw_poll_failed(count);
#ifdef RDMAPP_COUNT_COMPLETIONS
    completions_taken += static_cast<std::uint64_t>(count);
#endif
    if constexpr (kChecks) {
      for (int i = 0; i < count; ++i) {
        checks::InFlight::instance().completed(raw()->context, room[static_cast<std::size_t>(i)]);
      }
    }
    return room.first(static_cast<std::size_t>(count));
  }
  [[nodiscard]] bool poll(Completion& one) const { return !poll(std::span{&one, 1}).empty(); }
  [[nodiscard]] std::optional<Completion> poll() const {
    std::optional<Completion> one{std::in_place};
    if (!poll(*one)) one.reset();
    return one;
  }

  /// Sleeps until there is something. Empty: nothing by then.
  [[nodiscard]] std::span<Completion> wait(std::span<Completion> room, Deadline until) {
    while (true) {
      if (const auto done = poll(room); !done.empty()) return done;
      // What completes between that poll and arming makes no event: poll once more after it.
      if (!armed_) {
        arm();
        continue;
      }
      if (!wait_readable(until)) return poll(room);
      take_event();
    }
  }
  [[nodiscard]] std::optional<Completion> wait(Deadline until) {
    std::optional<Completion> one{std::in_place};
    if (wait(std::span{&*one, 1}, until).empty()) one.reset();
    return one;
  }
  /// Polls without sleeping: the lowest latency, a whole core.
  [[nodiscard]] std::optional<Completion> spin(Deadline until) const {
    do {
      if (auto one = poll()) return one;
    } while (!until.passed());
    return std::nullopt;
  }

  /// For epoll and the like: readable when take_event() has something. -1 without a channel.
  [[nodiscard]] int fd() const noexcept {
    return raw()->channel != nullptr ? raw()->channel->fd : -1;
  }
  [[nodiscard]] bool armed() const noexcept { return armed_; }
  /// One event for the next completion (or the next solicited one, or failure). poll() after it.
  void arm(bool solicited_only = false) {
    if (fd() < 0) {
      throw Error{"ibv_req_notify_cq", detail::device_of(raw()->context), EINVAL,
                  "this completion queue was made without a channel"};
    }
    const int code = ibv_req_notify_cq(raw(), solicited_only ? 1 : 0);
    if (code != 0) throw Error{"ibv_req_notify_cq", detail::device_of(raw()->context), code};
    armed_ = true;
  }
  /// Takes and acknowledges an event; false when there is none. Then poll(), and arm() again.
  bool take_event() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(raw()->channel, &cq, &context) != 0) {
      if (errno == EAGAIN || errno == EINTR) return false;
      throw Error{"ibv_get_cq_event", detail::device_of(raw()->context), errno};
    }
    ibv_ack_cq_events(cq, 1);
    armed_ = false;
    return true;
  }

  void resize(int depth) {
    const int code = ibv_resize_cq(raw(), depth);
    if (code != 0) {
      throw Error{"ibv_resize_cq", detail::device_of(raw()->context), code,
                  concat("cqe ", raw()->cqe, " to ", depth)};
    }
  }

 private:
  static Shared<ibv_cq> create(const Context& context, int depth, Options options) {
    Shared<ibv_comp_channel> channel;
    if (options.channel) channel = create_channel(context);
    ibv_cq* const raw = ibv_create_cq(context.raw(), depth, nullptr, channel.get(), options.vector);
    if (raw == nullptr) {
      const int code = errno;
      throw Error{"ibv_create_cq", concat("device ", context.name()), code,
                  limits::of_completion_queue(depth, options.vector, context.limits(),
                                              context.raw()->num_comp_vectors)};
    }
    return own(raw, "ibv_destroy_cq", ibv_destroy_cq, std::move(channel), context.share());
  }
  /// Its descriptor doesn't block: whoever waits does so with a deadline.
  static Shared<ibv_comp_channel> create_channel(const Context& context) {
    ibv_comp_channel* const raw = ibv_create_comp_channel(context.raw());
    if (raw == nullptr) {
      throw Error{"ibv_create_comp_channel", concat("device ", context.name()), errno};
    }
    auto channel = own(raw, "ibv_destroy_comp_channel", ibv_destroy_comp_channel, context.share());
    if (fcntl(raw->fd, F_SETFL, fcntl(raw->fd, F_GETFL) | O_NONBLOCK) != 0) {
      throw Error{"fcntl", "completion channel", errno};
    }
    return channel;
  }

  [[nodiscard]] bool wait_readable(Deadline until) const {
    pollfd waiting{.fd = fd(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, until.poll_timeout());
    if (ready < 0 && errno != EINTR) throw Error{"poll", "completion channel", errno};
    return ready != 0;
  }
  [[noreturn]] [[gnu::cold]] void throw_poll_failed(int code) const {
    throw Error{
        "ibv_poll_cq", detail::device_of(raw()->context), 0,
        concat("it returned ", code, ": the queue can't be used any more; did more than its ",
               depth(), " entries complete unpolled?")};
  }

  bool armed_ = false;
};

}  // namespace rdma
