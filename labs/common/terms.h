#pragma once

// The client's --size and --iters hold for both ends: they go to the server in the private data of
// the connection request.

#include <cstdint>

#include "labs/common/lab.h"
#include "rdma++/connection_options.h"
#include "rdma++/listener.h"

namespace lab {

struct Terms {
  std::uint64_t size = 0;
  std::uint64_t iters = 0;
};

[[nodiscard]] inline Terms terms(const Options& options) { return {options.size, options.iters}; }

/// The server's options with the client's terms in them. `most`: bytes that the lab can do with.
[[nodiscard]] inline Options agree(Options options, const Terms& asked, std::size_t most) {
  check(asked.size >= 1 && asked.size <= most && asked.iters >= 1,
        "the client asks for {} bytes, {} times; possible are 1 to {} bytes, once or more",
        asked.size, asked.iters, most);
  options.size = asked.size;
  options.iters = asked.iters;
  return options;
}

}  // namespace lab
