#pragma once

// One end of one mode: steps 1 to 6.

#include <algorithm>
#include <array>

#include "labs/common/bootstrap.h"
#include "labs/common/pattern.h"

namespace across_hosts {

enum class Mode : std::uint32_t { send_only, recv_only, both, end };
constexpr std::array kNames{"send-only", "recv-only", "both"};

/// What the client wants, told over the socket before each mode.
struct Plan {
  Mode mode;
  std::uint32_t barrier;  // in step 4: 1 or 0
  std::uint64_t size, iters;
};
constexpr std::uint64_t kClient = 1, kServer = 2;  // whose bytes

/// One end of one mode.
struct End {
  // 1. Device, domain, queues, memory: `in` is what the peer may write to and read.
  End(const lab::Options& options, rdma::TcpBootstrap& socket, const Plan& wanted)
      : plan{wanted},
        deadline{options.deadline},
        tcp{socket},
        from{lab::origin(options, tcp)},
        pd{from.context},
        cq{from.context, 8},
        qp{rdma::QueuePair::rc(pd).cq(cq).depth(4, 4).sge(1, 1).create()},
        out{pd, plan.size},
        in{pd, plan.size, rdma::Access::remote_write | rdma::Access::remote_read} {
    lab::check_message_size(from.context, plan.size);
    qp.to_init();
  }

  // 2. Receives can wait in INIT already, so that the first message finds one.
  void post_receive() {
    std::ranges::fill(in.bytes(), std::byte{0});
    qp.post(rdma::Recv{in}).check();
  }
  // 3. Swap what the other end must know.
  rdma::ConnInfo swap() {
    rdma::ConnInfo local = qp.info(1, from.gid);
    const rdma::ConnInfo peer = tcp.exchange(local.offer(in.remote()));
    lab::say("told  {}", local.to_string());
    lab::say("heard {}", peer.to_string());
    return peer;
  }
  // 4. RTR with what the peer said, RTS with what we said. A message to a queue pair that isn't in
  //    RTR yet is thrown away, and costs a timeout. The barrier keeps both ends from sending early.
  void connect(const rdma::ConnInfo& peer) {
    qp.connect(peer);
    if (plan.barrier != 0) tcp.barrier();
    connected_at = Clock::now();
  }
  // 5. Post, then take the completions: that many of our own requests and that many receives. The
  //    peer's next message can be here before the acknowledgement of our last: that one is kept.
  template <class Request>
  void post(Request request) {
    qp.post(request.signaled()).check();
  }
  void complete(int requests, int receives) {
    while (done_requests < requests || done_receives < receives) {
      const auto done = cq.wait(deadline);
      lab::in_time(done.has_value(), "a completion, with {} as the peer", tcp.peer());
      ++(done->check().is_receive() ? done_receives : done_requests);
      if (++completions == 1) first = Clock::now() - connected_at;
    }
    done_requests -= requests;
    done_receives -= receives;
  }
  // 6. Nobody leaves before both have what they waited for.
  void finish(std::uint64_t wanted) {
    tcp.barrier();
    while (cq.poll()) ++completions;
    lab::check(completions == wanted, "{} completions instead of {}", completions, wanted);
    const char* const name = kNames.at(static_cast<std::size_t>(plan.mode));
    if (completions == 0) return lab::say("{}: 0 completions here", name);
    lab::say("{}: {} completions here, the first after {:.1f} ms", name, completions,
             first.count());
  }

  using Clock = std::chrono::steady_clock;
  Plan plan;
  rdma::Deadline deadline;
  rdma::TcpBootstrap& tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue cq;
  rdma::QueuePair qp;
  rdma::Buffer out, in;
  std::uint64_t completions = 0;
  Clock::time_point connected_at{};
  std::chrono::duration<double, std::milli> first{};  // from then to the first completion
  int done_requests = 0, done_receives = 0;
};

}  // namespace across_hosts
