#pragma once

// What both ends of the lab share.

#include <cstdint>

#include "labs/bulk/sweep.h"
#include "labs/common/lab.h"
#include "rdma++/rdma.h"

extern bulk::Sweep sweep;

/// In the server's private data: where the bytes go, by either way.
struct Offer {
  rdma::RemoteBuffer memory;
  std::uint64_t tcp_port;
};
/// From the client before each transfer. A chunk of 0: there are no more.
struct Order {
  std::uint64_t seed;
  std::uint64_t size;
  std::uint64_t chunk;
  std::uint64_t by_tcp;
};
/// From the client after its last WRITE: nobody else could tell the server.
struct Done {
  std::uint64_t seed;
};
/// From the server when it has everything, and before it looks at the bytes.
struct Cost {
  double cpu_seconds;
};
/// Then where the first wrong byte is, or this.
inline constexpr std::uint64_t kIntact = ~std::uint64_t{0};

void server(const lab::Options& options);
void client(const lab::Options& options);
