#include "tests/golden/conversation_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "packet/print.h"

namespace verbena::test {
namespace {

using engine::CompletionKind;

/// As pyverbs names the completion's opcode.
std::string_view name_of(CompletionKind kind) {
  switch (kind) {
    case CompletionKind::send:
      return "SEND";
    case CompletionKind::write:
      return "RDMA_WRITE";
    case CompletionKind::read:
      return "RDMA_READ";
    case CompletionKind::compare_swap:
      return "COMP_SWAP";
    case CompletionKind::fetch_add:
      return "FETCH_ADD";
    case CompletionKind::receive:
      return "RECV";
    case CompletionKind::receive_write_immediate:
      return "RECV_RDMA_WITH_IMM";
    default:
      return "?";
  }
}

}  // namespace

std::vector<std::uint8_t> with_kernels_migration(std::vector<std::uint8_t> ours) {
  constexpr std::uint8_t kMigReq = 0x40;
  ours.at(1) ^= kMigReq;
  return ours;
}

std::string text_of(std::span<const std::uint8_t> frame) {
  if (frame.empty()) return "nothing";
  std::vector<std::uint8_t> with_icrc{frame.begin(), frame.end()};
  with_icrc.resize(frame.size() + packet::kIcrcSize);
  const auto parsed = packet::parse(with_icrc);
  if (const auto* p = std::get_if<packet::Packet>(&parsed)) return packet::text(*p);
  return std::string{packet::text(std::get<packet::Malformed>(parsed))};
}

std::string both_sides(const Frame* kernel, std::span<const std::uint8_t> ours) {
  std::string out = kernel == nullptr ? "behind the end of the recording"
                                      : "packet " + std::to_string(kernel->number);
  const auto theirs = kernel == nullptr ? std::span<const std::uint8_t>{} : kernel->bytes();
  out += "\n  kernel: " + text_of(theirs) + "\n  ours:   " + text_of(ours);
  if (!theirs.empty() && theirs.size() == ours.size()) {
    const auto at = std::mismatch(theirs.begin(), theirs.end(), ours.begin()).first;
    out += "\n  first byte that differs: " + std::to_string(at - theirs.begin());
  }
  return out;
}

void expect_completions(const std::vector<engine::Completion>& ours,
                        const std::vector<Polled>& kernel) {
  ASSERT_EQ(ours.size(), kernel.size()) << "completions";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const engine::Completion& o = ours[i];
    const Polled& k = kernel[i];
    SCOPED_TRACE("completion of wr_id " + std::to_string(k.wr_id));
    EXPECT_EQ(o.wr_id, k.wr_id);
    EXPECT_EQ(o.status, k.status);
    if (o.status != engine::CompletionStatus::success) continue;
    EXPECT_EQ(name_of(o.kind), k.opcode);
    EXPECT_EQ(o.byte_count, k.length);
    const bool receive =
        o.kind == CompletionKind::receive || o.kind == CompletionKind::receive_write_immediate;
    if (!receive) continue;  // the kernel marks the sender's as "with immediate", too
    EXPECT_EQ(o.has_immediate, k.immediate.has_value());
    EXPECT_EQ(o.immediate, k.immediate.value_or(packet::Immediate{}));
  }
}

}  // namespace verbena::test
