#pragma once

// The flags that need nobody at the other end: SIGNALED, INLINE, FENCE.

#include <cstdint>

#include "labs/common/lab.h"
#include "labs/common/spent.h"
#include "rdma++/rdma.h"

namespace flags {

/// Who speaks, and where to.
struct Bench {
  const lab::Options& options;
  rdma::Connection& connection;
  rdma::RemoteBuffer remote;
};

struct Stream {
  std::uint64_t completions = 0;
  lab::Spent spent{};
};
/// `iters` WRITEs as fast as they go; every n-th is signalled, and the last. The quickest of three.
[[nodiscard]] Stream stream(const Bench& bench, std::uint64_t every);

/// Microseconds from post to completion, the median. `inlined`: from memory that isn't registered
/// and is overwritten as soon as the post has returned; the bytes that arrive are checked.
[[nodiscard]] double write_latency(const Bench& bench, std::size_t size, bool inlined);

struct Fencing {
  std::uint64_t rounds = 0;
  std::uint64_t stale = 0;  // WRITEs that carried what was there before the READ
  double micros = 0;        // of both, the median
};
/// READ a value, WRITE it elsewhere, in one post.
[[nodiscard]] Fencing read_then_write(const Bench& bench, bool fenced);

}  // namespace flags
