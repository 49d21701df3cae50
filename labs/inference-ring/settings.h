#pragma once

// What both ends of the lab share.

#include <chrono>
#include <cstdint>

#include "labs/common/lab.h"
#include "rdma++/slice.h"

struct Settings {
  std::uint32_t slots = 16;              // of the ring
  std::chrono::microseconds gap{1'000};  // between two batches
  std::chrono::microseconds work{100};   // of the model, per batch
  std::chrono::microseconds stall{40'000};
  std::uint32_t stall_every = 100;  // of the slow phase: each of so many batches takes that
  bool credits = true;
};
extern Settings settings;

/// From the producer, in its private data: two phases of so many batches each.
struct Plan {
  std::uint64_t batches = 0;
};

/// From the consumer, in its own.
struct Offer {
  rdma::RemoteBuffer ring;
  std::uint64_t slots = 0;
};

/// The last word of the consumer: this bit, and how many batches it found overwritten.
inline constexpr std::uint32_t kReport = 0x8000'0000;

void consumer(const lab::Options& options);
void producer(const lab::Options& options);
