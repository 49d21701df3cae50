#pragma once

// What both ends of the lab share.

#include <array>
#include <cstdint>

#include "labs/common/lab.h"
#include "labs/kv-cache/block.h"
#include "rdma++/slice.h"

struct Settings {
  std::uint32_t slots = 48;  // of the cache
  std::uint32_t depth = 8;   // READs in flight
  bool lease = true;
};
extern Settings settings;

/// Requests that prefill has announced and decode hasn't finished.
inline constexpr std::uint32_t kAhead = 8;

/// From decode, in its private data.
struct Plan {
  std::uint64_t requests = 0;
};

/// From prefill, in its own.
struct Offer {
  rdma::RemoteBuffer cache;
  std::uint64_t slots = 0;
  std::uint64_t block_size = 0;
  std::uint64_t lease = 0;  // 1: blocks stay until decode is done
};

/// From prefill, for each request: where its blocks lie.
struct BlockTable {
  std::uint32_t request = 0;
  std::uint32_t found = 0;  // of the blocks: already in the cache, not computed again
  std::array<Place, kPromptBlocks> places{};
};

void prefill(const lab::Options& options);
void decode(const lab::Options& options);
