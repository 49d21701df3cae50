#pragma once

// How ranks meet before they can speak RDMA: each connects to rank 0 by TCP, and through it each
// tells each other what to connect to.

#include <string>
#include <vector>

#include "labs/common/lab.h"
#include "labs/common/ranks.h"
#include "rdma++/rdma.h"

namespace lab {

class Meeting {
 public:
  /// Returns when all have come. Throws Failed, naming those that haven't.
  Meeting(const Options& options, const Rank& rank);

  [[nodiscard]] const Rank& rank() const { return rank_; }
  /// Where this rank is reached by those that it met: RDMA can go the same way.
  [[nodiscard]] rdma::Gid address() const { return address_; }

  /// `mine[i]` is for rank i; the result's i is what rank i had for this one.
  [[nodiscard]] std::vector<rdma::ConnInfo> exchange(const std::vector<rdma::ConnInfo>& mine);
  /// Returns when all have called it.
  void barrier();

 private:
  void wait_for_all(const Options& options, rdma::TcpListener& listener);
  void go_to_root(const Options& options, std::uint16_t port);
  [[nodiscard]] std::vector<rdma::ConnInfo> exchange_at_root(
      const std::vector<rdma::ConnInfo>& mine);

  Rank rank_;
  rdma::Gid address_{};
  std::vector<rdma::TcpBootstrap> others_;  // at rank 0: those of 1, 2, …; else: rank 0's
};

}  // namespace lab
