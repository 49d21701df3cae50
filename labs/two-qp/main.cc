// Lab: two-qp
//
// Learn: what a connection manager does for you. Two reliable queue pairs of one process are taken
//        from RESET to RTS by hand, each step with what it needs to know, and play ping-pong: no
//        sockets, no rdma_cm, no second process.
// Run:   verbena lab two-qp
// Try:   --iters 10000 --size 8; --size 1M; --device NAME

#include "labs/common/lab.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/common/state.h"
#include "rdma++/rdma.h"

namespace {

constexpr std::size_t kMost = std::size_t{1} << 28;

/// One queue pair and its memory.
struct Side {
  const char* name;
  rdma::QueuePair qp;
  rdma::Buffer out, in;

  /// The device's word for it, not ours.
  void expect_state(ibv_qp_state wanted) const {
    const ibv_qp_state state = qp.query(IBV_QP_STATE).qp_state;
    lab::check(state == wanted, "{} is in state {}, not {}", name, lab::state_name(state),
               lab::state_name(wanted));
  }
  void post_receive() const { qp.post(rdma::Recv{in}).check(); }
};

/// The next completion of the queue must belong to this side: qp_num tells.
void take(const rdma::CompletionQueue& cq, const Side& side, const lab::Options& options) {
  const auto done = cq.spin(options.deadline);
  lab::in_time(done.has_value(), "a completion of {}", side.name);
  done->check();
  lab::check(done->qp_num == side.qp.number(), "a completion of qp {:#x}, expected {:#x}",
             done->qp_num, side.qp.number());
  ++lab::costs().completions;
}

void two_qp(const lab::Options& options) {
  // 1. A device, a protection domain, and two completion queues, each for both queue pairs.
  const rdma::Context context{rdma::choose_device(options.device)};
  const rdma::ProtectionDomain pd{context};
  const rdma::CompletionQueue sent{context, 16}, received{context, 16};
  const auto side = [&](const char* name) {
    return Side{name, rdma::QueuePair::rc(pd).send_cq(sent).recv_cq(received).depth(4, 4).create(),
                rdma::Buffer{pd, options.size}, rdma::Buffer{pd, options.size}};
  };
  Side left = side("left"), right = side("right");
  for (const Side* s : {&left, &right}) s->expect_state(IBV_QPS_RESET);
  lab::say("RESET  made on {}: left is qp {:#x}, right is qp {:#x}", context.name(),
           left.qp.number(), right.qp.number());

  // 2. What two machines would send each other: GID (or LID), queue pair number, first PSN, MTU.
  const rdma::ConnInfo of_left = left.qp.info(), of_right = right.qp.info();
  lab::say("       left : {}", of_left.to_string());
  lab::say("       right: {}", of_right.to_string());

  // 3. RESET to INIT: a port and rights. Receives may be posted from here on, and should be: as
  //    soon as the peer can send, it may.
  for (Side* s : {&left, &right}) {
    s->qp.to_init({.port = s->qp.info().port, .access = rdma::Access::none});
    s->expect_state(IBV_QPS_INIT);
    s->post_receive();
  }
  lab::say("INIT   port {}, no remote rights; one receive posted on each side", int{of_left.port});

  // 4. INIT to RTR: who the peer is, and the PSN that its first packet carries. Packets are taken
  //    from here on.
  const auto to_rtr = [](Side& s, const rdma::ConnInfo& mine, const rdma::ConnInfo& peer) {
    s.qp.to_rtr({.path = s.qp.path_to(peer),
                 .qpn = peer.qpn,
                 .psn = peer.psn,
                 .mtu = std::min(mine.mtu, peer.mtu),
                 .max_dest_rd_atomic = 1,
                 .min_rnr_timer = 7});
    s.expect_state(IBV_QPS_RTR);
  };
  to_rtr(left, of_left, of_right);
  to_rtr(right, of_right, of_left);
  lab::say("RTR    each knows the other's number, address and PSN: ready to receive");

  // 5. RTR to RTS: our own first PSN, and how patient we are.
  for (Side* s : {&left, &right}) {
    s->qp.to_rts({.psn = s->qp.info().psn,
                  .timeout = 14,  // 67 ms
                  .retry_count = 7,
                  .rnr_retry = 7,
                  .max_rd_atomic = 1});
    s->expect_state(IBV_QPS_RTS);
  }
  lab::say("RTS    PSNs and timers set: ready to send");

  // 6. Ping-pong. Each side posts its next receive before it sends: the answer may be quick.
  const auto hit = [&](Side& from, Side& to, std::uint64_t ball) {
    lab::fill_pattern(from.out.bytes(), ball);
    from.qp.post(rdma::Send{from.out}.signaled()).check();
    take(received, to, options);
    const std::size_t same = lab::first_difference(to.in.bytes(), ball);
    lab::check(same == options.size, "ball {}: byte {} is wrong", ball, same);
    to.post_receive();
    take(sent, from, options);
  };
  const auto start = std::chrono::steady_clock::now();
  for (const std::uint64_t i : lab::rounds(options.iters)) {
    hit(left, right, 2 * i);
    hit(right, left, 2 * i + 1);
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  lab::costs().round_trips = options.iters;
  lab::costs().needed = 4 * options.iters;
  lab::say("{} round trips of {} bytes, every byte checked: {:.1f} µs each", options.iters,
           options.size, took.count() / static_cast<double>(options.iters));

  // 7. ERR, and destruction. In flight are the two receives: they are flushed.
  for (Side* s : {&left, &right}) s->qp.to_error();
  for (int flushed = 0; flushed < 2; ++flushed) {
    const auto done = received.spin(options.deadline);
    lab::check(done && done->status == IBV_WC_WR_FLUSH_ERR, "a receive was not flushed");
  }
  lab::say("ERR    the two receives left were flushed");
  lab::shown("RESET, INIT, RTR, RTS by hand; {} round trips of {} bytes without a socket",
             options.iters, options.size);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run_alone(
      argc, argv,
      {.name = "two-qp",
       .idea = "One process, two queue pairs, from RESET to RTS by hand, ping-pong",
       .most = kMost,
       .iters = 1000,
       .without = {"--port"}},
      two_qp);
}
