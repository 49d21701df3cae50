// How a Connection waits: for completions and for the peer's farewell at once.
#pragma once

#include "rdma++/connection.h"

namespace rdma {

/// Any completion; nullopt: none by then.
inline std::optional<Completion> Connection::next(Deadline until) {
  CompletionQueue& cq = parts_->cq;
  constexpr std::chrono::seconds kFlushTime{1};
  while (true) {
    if (auto done = cq.poll()) return done;
    if (!cq.armed()) {  // see CompletionQueue::wait
      cq.arm();
      continue;
    }
    if (parts_->flush_at && parts_->flush_at->passed()) {
      flush();
      parts_->silent_at = kFlushTime;
    }
    if (parts_->silent_at) until = std::min(until, *parts_->silent_at);
    const Deadline soon = parts_->flush_at ? std::min(until, *parts_->flush_at) : until;
    pollfd waiting[] = {{.fd = cq.fd(), .events = POLLIN, .revents = 0},
                        {.fd = event_fd(), .events = POLLIN, .revents = 0}};
    const int ready = ::poll(waiting, 2, soon.poll_timeout());
    if (ready < 0 && errno != EINTR) throw Error{"poll", peer_name(), errno};
    if (waiting[0].revents != 0) cq.take_event();
    if (waiting[1].revents != 0) check_peer();
    if (ready == 0 && until.passed()) return cq.poll();
  }
}

/// That one; the others are kept for wait().
inline std::optional<Completion> Connection::find(std::uint64_t id, Deadline until) {
  while (auto done = next(until)) {
    if (done->id() == id) return done;
    parts_->kept.push_back(*done);
  }
  return std::nullopt;
}

/// That one, or an exception when nothing refers to its memory any more.
inline Completion Connection::finish(std::uint64_t id, Deadline until) {
  if (const auto kept = std::find_if(parts_->kept.begin(), parts_->kept.end(),
                                     [&](const Completion& done) { return done.id() == id; });
      kept != parts_->kept.end()) {
    const Completion done = *kept;
    parts_->kept.erase(kept);
    return done;
  }
  if (const auto done = find(id, until)) return *done;
  parts_->qp.to_error();
  if (!find(id, std::chrono::seconds{5})) report("a queue pair in the error state did not flush");
  throw TimedOut{"completion", peer_name(), "the connection is in the error state now"};
}

inline void Connection::barrier(Deadline until) {
  const std::uint64_t arrived = post_recv(control(kRecvAt, kValueSize));
  checked(perform(Send{}.imm(kBarrier), until));
  const Completion done = checked(finish(arrived, until));
  if (!done.has_imm() || done.imm() != kBarrier || done.length() != 0) {
    throw Error{"barrier", peer_name(), EBADMSG,
                concat("a message of ", done.length(),
                       " bytes came instead; both sides must call barrier() at the same point")};
  }
}

inline void Connection::check_peer() {
  while (const auto event = parts_->channel.next(Deadline{std::chrono::seconds{0}})) {
    const bool gone =
        event->type == RDMA_CM_EVENT_DISCONNECTED || event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
    if (!gone) continue;  // TIMEWAIT_EXIT and the like
    parts_->peer_left = true;
    // The peer answers retransmissions until we say goodbye, too: what we sent may still complete.
    if (!parts_->left) {
      parts_->flush_at =
          parts_->sends_waiting > 0 ? Deadline{parts_->linger} : Deadline{std::chrono::seconds{0}};
    }
  }
}

/// Or answers the peer's. Fails when that one gave up waiting, which is as good.
inline void Connection::say_goodbye() {
  if (parts_->left) return;
  parts_->left = true;
  if (rdma_disconnect(parts_->id.raw()) != 0 && !parts_->peer_left) {
    throw Error{"rdma_disconnect", peer_name(), errno};
  }
}

inline void Connection::flush() {
  parts_->flush_at.reset();
  say_goodbye();
  parts_->qp.to_error();
}

inline void Connection::disconnect(Deadline until) {
  check_peer();
  say_goodbye();
  while (!parts_->peer_left) {
    pollfd waiting{.fd = event_fd(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, until.poll_timeout()) == 0) {
      throw TimedOut{"rdma_disconnect", peer_name(), "the peer didn't answer"};
    }
    check_peer();
  }
  parts_->qp.to_error();
}

inline void Connection::hang_up() noexcept {
  if (parts_ == nullptr || !parts_->established || parts_->left) return;
  try {
    // In the error state there is nothing that the peer might still miss.
    if (parts_->qp.state() == IBV_QPS_RTS) {
      disconnect(parts_->linger);
    } else {
      check_peer();
      say_goodbye();
    }
  } catch (const TimedOut&) {  // a peer that is busy elsewhere will find out by itself
  } catch (const std::exception& failure) {
    report(concat("closing a connection: ", failure.what()));
  }
}

}  // namespace rdma
