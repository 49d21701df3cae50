#include "labs/flags/solicited.h"

#include <array>

#include "labs/common/connect.h"

namespace flags {
namespace {

/// How many messages came; each receive is posted again.
int drain(rdma::Connection& connection, const rdma::CompletionQueue& received) {
  int count = 0;
  while (const auto done = received.poll()) {
    done->check();
    connection.post(rdma::Recv{}).check();
    ++count;
  }
  return count;
}

/// The number of wake-ups that one group took.
std::uint32_t receive_group(const lab::Options& options, rdma::Connection& connection,
                            rdma::CompletionQueue& received, bool solicited_only,
                            std::uint32_t so_far) {
  received.arm(solicited_only);
  connection.perform(rdma::Send{}.imm(so_far)).check();
  std::uint32_t wake_ups = 0;
  int count = 0;
  while (count < kGroup) {
    lab::sleep_until_event(options, connection, received);
    ++wake_ups;
    // Armed for any completion, more of the group may come after this: arm first, then look.
    if (!solicited_only) received.arm();
    count += drain(connection, received);
    lab::check(!solicited_only || count == kGroup,
               "woken after {} messages of {}: the solicited one is the last", count, kGroup);
  }
  return wake_ups;
}

std::uint32_t take_credit(rdma::Connection& connection) {
  const rdma::Completion credit = connection.wait().check();
  lab::check(credit.is_receive() && credit.has_imm(), "expected a credit");
  connection.post(rdma::Recv{}).check();
  return credit.imm();
}

}  // namespace

void receive_groups(const lab::Options& options, rdma::Connection& connection,
                    rdma::CompletionQueue& received) {
  // It may be there already: whoever arms and sleeps now, sleeps beside it.
  const auto start = received.spin(options.deadline);
  lab::in_time(start.has_value(), "a message to start with");
  start->check();
  connection.post(rdma::Recv{}).check();
  // Solicited ones first: once armed for any, a queue can't be disarmed.
  for (const bool solicited_only : {true, false}) {
    std::uint32_t wake_ups = 0;
    for (int group = 0; group < kGroups; ++group) {
      wake_ups += receive_group(options, connection, received, solicited_only, wake_ups);
    }
    connection.perform(rdma::Send{}.imm(wake_ups)).check();
  }
}

WakeUps send_groups(rdma::Connection& connection) {
  connection.post(rdma::Recv{}).check();
  connection.perform(rdma::Send{}.solicited()).check();
  std::array<std::uint32_t, 2> wake_ups{};
  for (std::uint32_t& of_this_way : wake_ups) {
    for (int group = 0; group < kGroups; ++group) {
      take_credit(connection);
      // One after the other: each has arrived before the next one leaves.
      for (int i = 1; i < kGroup; ++i) connection.perform(rdma::Send{}).check();
      connection.perform(rdma::Send{}.solicited()).check();
    }
    of_this_way = take_credit(connection);
  }
  return {.solicited_only = wake_ups[0], .any = wake_ups[1]};
}

}  // namespace flags
