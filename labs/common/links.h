#pragma once

// A queue pair to each of several ranks, and the immediate values that came from them.

#include <deque>
#include <optional>
#include <vector>

#include "labs/common/meeting.h"

namespace lab {

/// Make it, register memory in pd(), connect(). Failures are Failed, with the rank's number.
class Links {
 public:
  /// To every other rank, or (`hub_only`) between rank 0 and the others.
  Links(const Options& options, const Meeting& meeting, bool hub_only = false);

  [[nodiscard]] const rdma::ProtectionDomain& pd() const { return pd_; }
  /// Offers `memory` to every peer. Returns when all ranks are ready to be written to.
  void connect(Meeting& meeting, const rdma::RemoteBuffer& memory);
  /// What that rank offered.
  [[nodiscard]] const rdma::RemoteBuffer& memory_of(unsigned rank) const { return at(rank).memory; }

  /// Signalled, and in flight until finish() returns.
  void post(unsigned rank, rdma::SendRequest request);
  /// Until nothing is in flight to that rank.
  void finish(unsigned rank);
  /// A WRITE of no bytes with immediate data: a word, and nothing else.
  void tell(unsigned rank, std::uint32_t word) {
    post(rank, rdma::Write{memory_of(rank)}.imm(word));
  }
  /// The next immediate value from that rank. They come in the order of their sending.
  [[nodiscard]] std::uint32_t hear(unsigned rank);
  /// The same, when only one value can be right.
  void expect(unsigned rank, std::uint32_t word) {
    const std::uint32_t heard = hear(rank);
    check(heard == word, "rank {} said {:#x} instead of {:#x}", rank, heard, word);
  }

 private:
  /// Receives that wait for immediate values, and requests in flight, per peer.
  static constexpr std::uint32_t kDepth = 32;

  struct Link {
    rdma::QueuePair qp;
    rdma::RemoteBuffer memory{};
    std::deque<std::uint32_t> words{};
    std::uint32_t in_flight = 0;
  };

  [[nodiscard]] static rdma::Context open(const Options& options, const Meeting& meeting);
  [[nodiscard]] const Link& at(unsigned rank) const { return links_.at(rank).value(); }
  [[nodiscard]] Link& at(unsigned rank) { return links_.at(rank).value(); }
  void listen_to(Link& link, unsigned rank);
  void take_completions();

  std::chrono::steady_clock::time_point deadline_;
  rdma::Context context_;
  rdma::ProtectionDomain pd_;
  rdma::CompletionQueue cq_;
  std::vector<std::optional<Link>> links_;  // by rank; nullopt: none to that one
  std::optional<rdma::GidEntry> speaks_from_;
};

}  // namespace lab
