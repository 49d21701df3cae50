#pragma once

// Two collectives by WRITE_WITH_IMM: the data lands by itself, the immediate value says that it
// has and what it is.

#include <cstdint>

#include "labs/common/links.h"

/// What each rank offers to the others: a cell for each rank, the vector, and a slot for each step
/// in which something is added to it.
struct Board {
  Board(std::size_t elements, unsigned ranks)
      : count{elements},
        longest{(elements + ranks - 1) / ranks},
        vector_at{ranks * sizeof(std::uint64_t)},
        slots_at{vector_at + elements * sizeof(float)},
        size{slots_at + std::max(1u, ranks - 1) * longest * sizeof(float)} {}

  [[nodiscard]] std::size_t element_at(std::size_t i) const {
    return vector_at + i * sizeof(float);
  }
  [[nodiscard]] std::size_t slot_at(unsigned step) const {
    return slots_at + step * longest * sizeof(float);
  }

  std::size_t count;                      // elements
  std::size_t longest;                    // elements of the longest segment
  std::size_t vector_at, slots_at, size;  // bytes
};

/// Dissemination: in round k everybody tells the rank 2^k further on and hears from the one 2^k
/// before. After log2(N) rounds each has heard, directly or not, of all.
inline void barrier(lab::Links& links, const lab::Rank& me, std::uint32_t generation) {
  constexpr std::uint32_t kBarrier = 0x8000'0000;
  std::uint32_t round = 0;
  for (unsigned distance = 1; distance < me.count; distance *= 2, ++round) {
    const std::uint32_t word = kBarrier | (generation & 0xffff) << 8 | round;
    links.tell((me.number + distance) % me.count, word);
    links.expect((me.number + me.count - distance) % me.count, word);
  }
}

/// Ring: N - 1 steps in which each segment travels once around and grows to the sum, then N - 1 in
/// which the sums travel. Each rank sends 2 (N - 1) / N of the vector, however many there are.
inline void allreduce(lab::Links& links, const lab::Rank& me, const rdma::Buffer& memory,
                      const Board& board) {
  if (me.count == 1) return;
  const unsigned n = me.count, right = (me.number + 1) % n, left = (me.number + n - 1) % n;
  const auto begin_of = [&](unsigned segment) { return board.count * segment / n; };
  const auto send = [&](unsigned segment, std::size_t to, std::uint32_t step) {
    const std::size_t begin = begin_of(segment), length = begin_of(segment + 1) - begin;
    const std::size_t bytes = length * sizeof(float);
    rdma::Write write{memory.slice(board.element_at(begin), bytes),
                      links.memory_of(right).slice(to, bytes)};
    links.post(right, write.imm(step));
  };
  const auto floats_at = [&](std::size_t offset) {
    return reinterpret_cast<float*>(memory.data() + offset);
  };
  for (unsigned step = 0; step + 1 < n; ++step) {
    send((me.number + n - step) % n, board.slot_at(step), step);
    links.expect(left, step);
    const unsigned segment = (me.number + n - step - 1) % n;
    const float* const came = floats_at(board.slot_at(step));
    float* const sum = floats_at(board.element_at(begin_of(segment)));
    const std::size_t length = begin_of(segment + 1) - begin_of(segment);
    for (std::size_t i = 0; i < length; ++i) sum[i] += came[i];
  }
  for (unsigned step = 0; step + 1 < n; ++step) {
    const unsigned segment = (me.number + 1 + n - step) % n;
    send(segment, board.element_at(begin_of(segment)), n + step);
    links.expect(left, n + step);
  }
  links.finish(right);
}
