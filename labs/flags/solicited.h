#pragma once

// SOLICITED: which messages wake a receiver that armed its queue for solicited ones only. It takes
// both ends:
//
//   server                                client
//   arm; sleep             <-------      ready, solicited
//   arm; credit            ------->
//                          <-------      a group of messages, the last one solicited
//   sleep; take what is there …
//   credit with the number of wake-ups    after the last group

#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace flags {

constexpr int kGroup = 8;    // messages
constexpr int kGroups = 25;  // of each way to arm
constexpr int kReceives = 2 * kGroup;

/// `received`: where the connection's receives complete, kReceives of them. Nobody else arms it.
void receive_groups(const lab::Options& options, rdma::Connection& connection,
                    rdma::CompletionQueue& received);

/// The receiver's wake-ups.
struct WakeUps {
  std::uint32_t solicited_only = 0;
  std::uint32_t any = 0;
};
[[nodiscard]] WakeUps send_groups(rdma::Connection& connection);

}  // namespace flags
