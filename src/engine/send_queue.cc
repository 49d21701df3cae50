#include "engine/send_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

namespace verbena::engine {

namespace {

std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t n = 0;
  for (const Sge& s : sges) n += s.length;
  return n;
}

/// Atomics move a word, whatever else the gather list says.
bool length_fits(SendKind kind, std::uint64_t length) {
  switch (kind) {
    case SendKind::compare_swap:
    case SendKind::fetch_add:
    case SendKind::atomic_write:
      return length == 8;
    case SendKind::flush:
    case SendKind::local_invalidate:
    case SendKind::bind_window:
      return length == 0;
    default:
      return length <= kMaxMessage;
  }
}

}  // namespace

PostedSend::PostedSend(const SendRequest& r)
    : wr_id{r.wr_id},
      remote_address{r.remote_address},
      rkey{r.rkey},
      immediate{r.immediate},
      invalidate{r.invalidate},
      xrc_srq{r.xrc_srq},
      kind{r.kind},
      signaled{r.signaled},
      solicited{r.solicited},
      fence{r.fence},
      inlined{r.inlined} {
  switch (r.kind) {
    case SendKind::send:
    case SendKind::send_immediate:
      operands_ = r.destination;
      break;
    case SendKind::compare_swap:
    case SendKind::fetch_add:
      operands_ = r.atomic;
      break;
    case SendKind::flush:
      operands_ = r.flush;
      break;
    case SendKind::bind_window:
      operands_ = r.binding;
      break;
    case SendKind::send_invalidate:
    case SendKind::write:
    case SendKind::write_immediate:
    case SendKind::read:
    case SendKind::atomic_write:
    case SendKind::local_invalidate:
      break;
  }
}

SendQueue::SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline)
    : depth_{depth},
      wqes_(std::bit_ceil(depth)),
      sges_(wqes_.size() * max_sge),
      inline_(wqes_.size() * max_inline),
      max_sge_{max_sge},
      max_inline_{max_inline} {}

PostResult SendQueue::write(const SendRequest& r, bool signal_all, std::uint32_t ahead) {
  const std::uint64_t length = total_length(r.sges);
  if (!length_fits(r.kind, length)) return PostResult::bad_request;
  if (r.inlined) {
    const bool carries_data = !info_of(r.kind).answered || r.kind == SendKind::atomic_write;
    if (length > max_inline_ || !carries_data) return PostResult::bad_request;
  } else if (r.sges.size() > max_sge_) {
    return PostResult::bad_request;
  }
  const std::uint64_t index = tail_.load(std::memory_order_relaxed) + ahead;
  if (index - head_.load(std::memory_order_acquire) >= depth_) return PostResult::queue_full;

  if (r.inlined) {
    std::uint8_t* to = inline_.data() + slot_of(index) * max_inline_;
    for (const Sge& s : r.sges) {
      // The program's own memory on the program's own thread: a bad address is its own fault.
      if (s.length > 0) std::memcpy(to, reinterpret_cast<const void*>(s.address), s.length);
      to += s.length;
    }
  } else {
    std::copy(r.sges.begin(), r.sges.end(),
              sges_.begin() + static_cast<std::ptrdiff_t>(slot_of(index) * max_sge_));
  }
  SendWqe& wqe = at(index);
  wqe.request = PostedSend{r};
  wqe.request.signaled = r.signaled || signal_all;
  wqe.length = static_cast<std::uint32_t>(length);
  wqe.sge_count = r.inlined ? 0 : static_cast<std::uint32_t>(r.sges.size());
  wqe.started = false;
  wqe.done = false;
  return PostResult::posted;
}

void SendQueue::advance(std::uint32_t count) {
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  for (std::uint64_t i = tail; i < tail + count; ++i) {
    SendWqe& wqe = at(i);
    wqe.receive = receives_;
    if (wqe.info().takes_receive()) ++receives_;
  }
  tail_.store(tail + count, std::memory_order_release);
}

PostResult SendQueue::post(const SendRequest& r, bool signal_all) {
  const std::lock_guard lock{posting_};
  const PostResult result = write(r, signal_all, 0);
  if (result == PostResult::posted) advance(1);
  return result;
}

PostResult SendQueue::stage(const SendRequest& r, bool signal_all, std::uint32_t staged) {
  const std::lock_guard lock{posting_};
  return write(r, signal_all, staged);
}

void SendQueue::publish(std::uint32_t staged) {
  const std::lock_guard lock{posting_};
  advance(staged);
}

void SendQueue::clear() {
  const std::lock_guard lock{posting_};
  head_.store(tail(), std::memory_order_release);
  receives_ = 0;
}

std::span<const Sge> SendQueue::sges(std::uint64_t index) const {
  const std::size_t slot = slot_of(index);
  return {sges_.data() + slot * max_sge_, wqes_[slot].sge_count};
}

std::span<const std::uint8_t> SendQueue::inline_bytes(std::uint64_t index) const {
  const std::size_t slot = slot_of(index);
  return {inline_.data() + slot * max_inline_,
          wqes_[slot].request.inlined ? wqes_[slot].length : 0};
}

}  // namespace verbena::engine
