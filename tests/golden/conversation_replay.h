#pragma once

// Plays one side of a recorded conversation with our engine, feeds it what the kernel's side
// got, and compares what it sends with what the kernel sent. Differences are GoogleTest
// failures that print both packets.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "engine/attributes.h"
#include "engine/key_table.h"
#include "packet/aeth.h"
#include "tests/golden/conversation.h"

namespace verbena::test {

/// Packets that one side's firewall threw away after they had been recorded: the n-th, counted
/// from 1, of those that arrived there. 0: none.
using Losses = std::array<std::size_t, 3>;

/// Where we differ from the kernel in the answer to one request, on purpose.
struct Difference {
  packet::Syndrome kernel;
  packet::Syndrome ours;
  engine::CompletionStatus receive;  // our status of the receive that it ends
};

/// A recording, and how both sides were set up beyond what NAME.txt says.
struct Row {
  static constexpr unsigned kRemote =
      engine::Access::kRemoteWrite | engine::Access::kRemoteRead | engine::Access::kRemoteAtomic;

  const char* name;
  engine::QpType type = engine::QpType::rc;
  std::uint16_t mtu = 1024;

  // The responder.
  unsigned qp_access = kRemote;
  unsigned region_access = engine::Access::kLocalWrite | kRemote;
  std::uint32_t receive_length = kResponderBuffer - kReceiveOffset;
  std::size_t unused_receives = 0;  // posted, though nothing completes them
  std::size_t receives_before = 1;  // they are posted before this packet of the recording
  bool window = false;              // bound to the region; the recorded SEND invalidates it
  std::uint8_t max_dest_rd_atomic = 16;
  std::optional<std::uint64_t> word{};  // at the start of the buffer
  Losses responder_loses{};
  std::optional<Difference> differs{};

  // The requester.
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint64_t fenced = 0;  // wr_id of the request with IBV_SEND_FENCE
  Losses requester_loses{};
  bool times_out = false;     // retransmissions come from the timer
  std::size_t redundant = 0;  // packets that the kernel repeats although they were acknowledged
};

/// For GoogleTest.
inline void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

/// How many packets our responder gets before it may answer.
enum class Pace : std::uint8_t { one_by_one, in_runs };

void replay_responder(const Row& row, const Conversation& c, Pace pace);
/// What our responder sends, without a comparison.
[[nodiscard]] std::vector<std::vector<std::uint8_t>> answers_of_ours(const Row& row,
                                                                     const Conversation& c,
                                                                     Pace pace);
void replay_requester(const Row& row, const Conversation& c);

// What both have in common.

[[nodiscard]] inline bool is_lost(const Losses& losses, std::size_t arrival) {
  for (const std::size_t n : losses) {
    if (n == arrival) return true;
  }
  return false;
}

/// Table in conversation_test.cc, "MigReq": the bit turned round, so that a frame of ours that
/// has it set equals one of the kernel's that has not.
[[nodiscard]] std::vector<std::uint8_t> with_kernels_migration(std::vector<std::uint8_t> ours);

/// The one-line form of BTH … pad.
[[nodiscard]] std::string text_of(std::span<const std::uint8_t> frame);
/// "packet 7\n  kernel: …\n  ours:   …"; an empty span prints as "nothing".
[[nodiscard]] std::string both_sides(const Frame* kernel, std::span<const std::uint8_t> ours);

/// Completions against what the recorded program polled.
void expect_completions(const std::vector<engine::Completion>& ours,
                        const std::vector<Polled>& kernel);

}  // namespace verbena::test
