#include "engine/send_queue.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace verbena::engine {

namespace {
std::uint64_t total_length(std::span<const Sge> sges) {
  std::uint64_t n = 0;
  for (const Sge& s : sges) n += s.length;
  return n;
}
}  // namespace

SendQueue::SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline)
    : wqes_(depth),
      sges_(std::size_t{depth} * max_sge),
      inline_(std::size_t{depth} * max_inline),
      max_sge_{max_sge},
      max_inline_{max_inline} {}

PostResult SendQueue::post(const SendRequest& r, bool signal_all) {
  const std::uint64_t length = total_length(r.sges);
  if (length > kMaxMessage) return PostResult::bad_request;
  if (r.inlined) {
    if (length > max_inline_ || r.kind == SendKind::read) return PostResult::bad_request;
  } else if (r.sges.size() > max_sge_) {
    return PostResult::bad_request;
  }

  const std::lock_guard lock{posting_};
  const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) == wqes_.size()) return PostResult::queue_full;

  if (r.inlined) {
    std::uint8_t* to = inline_.data() + (tail % wqes_.size()) * max_inline_;
    for (const Sge& s : r.sges) {
      // The program's own memory on the program's own thread: a bad address is its own fault.
      std::memcpy(to, reinterpret_cast<const void*>(s.address), s.length);
      to += s.length;
    }
  } else {
    std::copy(r.sges.begin(), r.sges.end(),
              sges_.begin() + static_cast<std::ptrdiff_t>((tail % wqes_.size()) * max_sge_));
  }
  at(tail) = SendWqe{.wr_id = r.wr_id,
                     .kind = r.kind,
                     .signaled = r.signaled || signal_all,
                     .solicited = r.solicited,
                     .fence = r.fence,
                     .inlined = r.inlined,
                     .immediate = r.immediate,
                     .remote_address = r.remote_address,
                     .rkey = r.rkey,
                     .length = static_cast<std::uint32_t>(length),
                     .sge_count = r.inlined ? 0 : static_cast<std::uint32_t>(r.sges.size()),
                     .started = false,
                     .first_psn = {},
                     .packets = 0};
  tail_.store(tail + 1, std::memory_order_release);
  return PostResult::posted;
}

std::span<const Sge> SendQueue::sges(std::uint64_t index) const {
  const std::size_t slot = index % wqes_.size();
  return {sges_.data() + slot * max_sge_, wqes_[slot].sge_count};
}

std::span<const std::uint8_t> SendQueue::inline_bytes(std::uint64_t index) const {
  const std::size_t slot = index % wqes_.size();
  return {inline_.data() + slot * max_inline_, wqes_[slot].inlined ? wqes_[slot].length : 0};
}

}  // namespace verbena::engine
