#include "engine/receive_queue.h"

#include <algorithm>
#include <bit>
#include <mutex>

namespace verbena::engine {

ReceiveQueue::ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge)
    : depth_{depth},
      wqes_(std::bit_ceil(depth)),
      sges_(wqes_.size() * max_sge),
      max_sge_{max_sge} {}

PostResult ReceiveQueue::post(const ReceiveRequest& r) {
  if (r.sges.size() > max_sge_) return PostResult::bad_request;
  std::uint64_t length = 0;
  for (const Sge& s : r.sges) length += s.length;

  const std::lock_guard lock{posting_};
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) == depth_) return PostResult::queue_full;
  const std::size_t at = slot_of(tail);
  std::copy(r.sges.begin(), r.sges.end(),
            sges_.begin() + static_cast<std::ptrdiff_t>(at * max_sge_));
  // No message is longer, so a longer receive need not be told apart.
  wqes_[at] = {r.wr_id, static_cast<std::uint32_t>(std::min<std::uint64_t>(length, kMaxMessage)),
               static_cast<std::uint32_t>(r.sges.size())};
  // seq_cst: the poster looks at the state next, and whoever changed the state at this queue.
  tail_.store(tail + 1, std::memory_order_seq_cst);
  return PostResult::posted;
}

void ReceiveQueue::take(TakenReceive& into) {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::size_t at = slot_of(head);
  const Sge* first = sges_.data() + at * max_sge_;
  into.taken = true;
  into.wr_id = wqes_[at].wr_id;
  into.length = wqes_[at].length;
  into.sges.assign(first, first + wqes_[at].sge_count);
  head_.store(head + 1, std::memory_order_release);
}

std::uint64_t ReceiveQueue::drop() {
  const std::uint64_t head = head_.load(std::memory_order_relaxed);
  const std::uint64_t wr_id = wqes_[slot_of(head)].wr_id;
  head_.store(head + 1, std::memory_order_release);
  return wr_id;
}

}  // namespace verbena::engine
