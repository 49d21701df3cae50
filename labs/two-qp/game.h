#pragma once

// What the two sides play: ping-pong, and what a wrong PSN makes of the first message.

#include "labs/common/pattern.h"
#include "labs/two-qp/side.h"

namespace two_qp {

struct Game {
  const lab::Options& options;
  const rdma::CompletionQueue& sent;      // of both sides
  const rdma::CompletionQueue& received;  // of both sides

  /// The next completion of the queue must belong to this side: qp_num tells.
  rdma::Completion next(const rdma::CompletionQueue& cq, const Side& side) const {
    const auto done = cq.spin(options.deadline);
    lab::in_time(done.has_value(), "a completion of {}", side.name);
    lab::check(done->qp_num == side.qp.number(), "a completion of qp {:#x}, expected {:#x}",
               done->qp_num, side.qp.number());
    return *done;
  }
  static void post(Side& from, std::uint64_t ball) {
    lab::fill_pattern(from.out.bytes(), ball);
    from.qp.post(rdma::Send{from.out}.signaled()).check();
  }
  /// The next receive goes first: the answer may be quick.
  void take(Side& to, std::uint64_t ball) const {
    next(received, to).check();
    const std::size_t same = lab::first_difference(to.in.bytes(), ball);
    lab::check(same == options.size, "ball {}: byte {} is wrong", ball, same);
    to.post_receive();
  }
  void hit(Side& from, Side& to, std::uint64_t ball) const {
    post(from, ball);
    take(to, ball);
    next(sent, from).check();
  }
};

/// Which PSN the right side expects in the first packet, instead of the left side's own.
enum class Expect { own, later, earlier };

/// Later: the packet is older than what is expected. So it must be a copy of one that was taken
/// before: it is acknowledged and thrown away. Nobody learns that the message is lost.
inline void lose_the_first(const Game& game, Side& left, Side& right) {
  constexpr auto kQuiet = std::chrono::milliseconds{200};
  game.post(left, 0);
  game.next(game.sent, left).check();
  lab::check(!game.received.spin(kQuiet), "right received a packet that is older than expected");
  lab::say("left's first SEND has completed with success; right has received nothing");
  game.hit(left, right, 1);
  lab::say("left's second SEND has arrived: right takes it for the first one");
  lab::shown("right expected the next PSN: the first message was acknowledged and never arrived");
}

/// Earlier: a packet seems to be missing. So right asks for that one (a NAK), and says no more
/// until it comes. Left has never sent it: it drops the NAK and repeats its own packet, by the
/// timer.
inline void never_arrive(const Game& game, Side& left) {
  game.post(left, 0);
  const rdma::Completion done = game.next(game.sent, left);
  lab::check(done.status == IBV_WC_RETRY_EXC_ERR, "left's SEND ended with {}", done.message());
  left.expect_state(IBV_QPS_ERR);
  while (const auto flushed = game.received.poll()) {
    lab::check(flushed->qp_num == left.qp.number(), "right received a packet out of order");
  }
  lab::say("left's first SEND has ended with RETRY_EXC_ERR; right has received nothing");
  lab::shown("right expected the PSN before: the first message was sent again, then RETRY_EXC_ERR");
}

}  // namespace two_qp
