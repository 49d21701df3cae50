// Lab: two-qp
//
// Learn: what a connection manager does for you. Two reliable queue pairs of one process are taken
//        from RESET to RTS by hand, each step with what it needs to know, and play ping-pong: no
//        sockets, no rdma_cm, no second process.
// Run:   verbena lab two-qp
// Try:   --iters 10000 --size 8; --expect-psn later; --expect-psn earlier; --without rts

#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/two-qp/game.h"

using namespace two_qp;

namespace {

constexpr std::size_t kMost = std::size_t{1} << 28;
constexpr std::size_t kOnePacket = 256;  // bytes that any MTU takes
Expect expect = Expect::own;
bool right_to_rts = true;

std::uint32_t expected_psn(std::uint32_t own) {
  if (expect == Expect::own) return own;
  return (expect == Expect::later ? own + 1 : own - 1) & 0xff'ffff;
}

/// Each step with what it needs to know.
void bring_up(Side& left, Side& right) {
  // 2. What two machines would send each other: GID (or LID), queue pair number, first PSN, MTU.
  const rdma::ConnInfo of_left = left.qp.info(), of_right = right.qp.info();
  lab::say("       left : {}", of_left.to_string());
  lab::say("       right: {}", of_right.to_string());

  // 3. RESET to INIT: a port and rights. Receives are posted here, before the peer can send.
  for (Side* side : {&left, &right}) side->to_init();
  lab::say("INIT   port {}, no remote rights; one receive posted on each side", int{of_left.port});

  // 4. INIT to RTR: who the peer is, and the PSN that its first packet carries. Packets are taken
  //    from here on.
  left.to_rtr(of_right, of_right.psn);
  right.to_rtr(of_left, expected_psn(of_left.psn));
  lab::say("RTR    each knows the other's number, address and PSN: ready to receive");

  // 5. RTR to RTS: the PSN of our own first packet, timeout and retry counts.
  left.to_rts();
  if (right_to_rts) right.to_rts();
  lab::say("RTS    PSNs and timers set: ready to send");
}

/// 6. Ping-pong.
void play(const Game& game, Side& left, Side& right) {
  lab::Work work;
  const auto start = std::chrono::steady_clock::now();
  for (const std::uint64_t i : lab::rounds(game.options.iters)) {
    game.hit(left, right, 2 * i);
    game.hit(right, left, 2 * i + 1);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  work.done({.round_trips = game.options.iters, .needed = 4 * game.options.iters});
  lab::say("{} round trips of {} bytes, every byte checked: {:.1f} µs each", game.options.iters,
           game.options.size, took.count() / static_cast<double>(game.options.iters));
}

void two_queue_pairs(const lab::Options& given) {
  lab::Options options = given;
  if (expect != Expect::own) options.size = std::min(options.size, kOnePacket);
  // 1. A device, a protection domain, and two completion queues, each for both queue pairs.
  const rdma::Context context{rdma::choose_device(options.device)};
  const rdma::ProtectionDomain pd{context};
  const rdma::CompletionQueue sent{context, 16}, received{context, 16};
  Side left{"left", pd, sent, received, options.size};
  Side right{"right", pd, sent, received, options.size};
  lab::say("RESET  made on {}: left is qp {:#x}, right is qp {:#x}", context.name(),
           left.qp.number(), right.qp.number());

  bring_up(left, right);
  const Game game{options, sent, received};
  if (expect == Expect::later) return lose_the_first(game, left, right);
  if (expect == Expect::earlier) return never_arrive(game, left);
  play(game, left, right);

  // 7. ERR, and destruction. In flight are the two receives: they are flushed.
  for (Side* side : {&left, &right}) side->qp.to_error();
  for (int flushed = 0; flushed < 2; ++flushed) {
    const auto done = received.spin(options.deadline);
    lab::check(done && done->status == IBV_WC_WR_FLUSH_ERR, "a receive was not flushed");
  }
  lab::say("ERR    the two receives left were flushed");
  lab::shown("RESET, INIT, RTR, RTS by hand; {} round trips of {} bytes without a socket",
             options.iters, options.size);
}

void add_options(lab::OwnOptions& own) {
  own.choice("--expect-psn", expect, {{"later", Expect::later}, {"earlier", Expect::earlier}},
             "Right expects a PSN that is one too high, or too low [left's own]");
  own.choice("--without", right_to_rts, {{"rts", false}}, "Right stays in RTR, step 5");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run_alone(
      argc, argv,
      {.name = "two-qp",
       .idea = "One process, two queue pairs, from RESET to RTS by hand, ping-pong",
       .most = kMost,
       .iters = 1000,
       .without = {"--port"},
       .more = add_options},
      two_queue_pairs);
}
