// Lab: across-hosts
//
// Learn: what must cross a socket before two hosts can speak: {gid, lid, qpn, psn, port, sl, mtu}
//        for the queue pair, {raddr, rkey} for the memory. And who gets a completion, by what the
//        client does with its queue pair:
//          send-only  it WRITEs and READs; the server posts nothing and gets nothing
//          recv-only  it receives what the server SENDs: one completion at either end
//          both       a SEND each way: two completions at either end
// Run:   verbena lab across-hosts           both ends on this machine, all three modes
//        verbena lab across-hosts server | verbena lab across-hosts client HOST --mode both
// Try:   --mode send-only --size 1M --pcap across.pcapng

#include <algorithm>
#include <array>
#include <map>

#include "labs/common/bootstrap.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"

namespace {

enum class Mode : std::uint32_t { send_only, recv_only, both, end };
constexpr std::array kNames{"send-only", "recv-only", "both"};
std::optional<Mode> only;  // else one after the other

/// What the client wants, told over the socket before each mode.
struct Plan {
  Mode mode;
  std::uint32_t reserved;
  std::uint64_t size, iters;
};
constexpr std::uint64_t kClient = 1, kServer = 2;  // whose bytes

/// One end of one mode.
struct End {
  // 1. Device, domain, queues, memory: `in` is what the peer may write to and read.
  End(const lab::Options& options, rdma::TcpBootstrap& socket, std::size_t size)
      : deadline{options.deadline},
        tcp{socket},
        from{lab::origin(options, tcp)},
        pd{from.context},
        cq{from.context, 8},
        qp{rdma::QueuePair::rc(pd).cq(cq).depth(4, 4).sge(1, 1).create()},
        out{pd, size},
        in{pd, size, rdma::Access::remote_write | rdma::Access::remote_read} {
    lab::check_message_size(from.context, size);
    qp.to_init();
  }

  // 2. Receives can wait in INIT already, so that the first message finds one.
  void post_receive() {
    std::ranges::fill(in.bytes(), std::byte{0});
    qp.post(rdma::Recv{in}).check();
  }
  // 3. Swap, then RTR with what the peer said and RTS with what we said. A message to a queue pair
  //    that isn't in RTR yet is thrown away and costs a timeout: hence the barrier.
  rdma::RemoteBuffer meet() {
    rdma::ConnInfo local = qp.info(1, from.gid);
    const rdma::ConnInfo peer = tcp.exchange(local.offer(in.remote()));
    lab::say("told  {}", local.to_string());
    lab::say("heard {}", peer.to_string());
    qp.connect(peer);
    tcp.barrier();
    return peer.remote();
  }
  // 4. Post, then take the completions: that many of our own requests and that many receives. The
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
      ++completions;
    }
    done_requests -= requests;
    done_receives -= receives;
  }
  // 5. Nobody leaves before both have what they waited for.
  void finish(Mode mode, std::uint64_t wanted) {
    tcp.barrier();
    while (cq.poll()) ++completions;
    lab::check(completions == wanted, "{} completions instead of {}", completions, wanted);
    lab::say("{}: {} completions here", kNames.at(static_cast<std::size_t>(mode)), completions);
    lab::costs().completions += completions;
    lab::costs().needed += completions;
  }

  rdma::Deadline deadline;
  rdma::TcpBootstrap& tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue cq;
  rdma::QueuePair qp;
  rdma::Buffer out, in;
  std::uint64_t completions = 0;
  int done_requests = 0, done_receives = 0;
};

void serve(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan.size};
  lab::fill_pattern(end.out.bytes(), kServer);
  if (plan.mode == Mode::both) end.post_receive();
  end.meet();
  for (std::uint64_t i = 0; i < plan.iters; ++i) {
    if (plan.mode == Mode::both) {
      end.complete(0, 1);
      lab::check_pattern(end.in.bytes(), kClient, "received");
      if (i + 1 < plan.iters) end.post_receive();
    }
    if (plan.mode == Mode::send_only) continue;
    end.post(rdma::Send{end.out});
    end.complete(1, 0);
  }
  end.finish(plan.mode, plan.mode == Mode::both        ? 2 * plan.iters
                        : plan.mode == Mode::recv_only ? plan.iters
                                                       : 0);
  if (plan.mode == Mode::send_only) lab::check_pattern(end.in.bytes(), kClient, "written");
}

void play(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan.size};
  lab::fill_pattern(end.out.bytes(), kClient);
  if (plan.mode != Mode::send_only) end.post_receive();
  const rdma::RemoteBuffer there = end.meet();
  for (const std::uint64_t i : lab::rounds(plan.iters)) {
    if (plan.mode == Mode::send_only) {
      end.post(rdma::Write{end.out, there});
      end.post(rdma::Read{end.in, there});  // comes after the WRITE, on one queue pair
      end.complete(2, 0);
      lab::check_pattern(end.in.bytes(), kClient, "read back");
      continue;
    }
    if (plan.mode == Mode::both) end.post(rdma::Send{end.out});
    end.complete(plan.mode == Mode::both ? 1 : 0, 1);
    lab::check_pattern(end.in.bytes(), kServer, "received");
    if (i + 1 < plan.iters) end.post_receive();
  }
  end.finish(plan.mode, plan.mode == Mode::recv_only ? plan.iters : 2 * plan.iters);
}

void server(const lab::Options& options) {
  rdma::TcpBootstrap tcp = lab::accept_tcp(options);
  while (true) {
    const auto plan = tcp.recv_value<Plan>();
    if (plan.mode == Mode::end) return;
    lab::check(plan.mode < Mode::end && plan.size > 0, "{} speaks another language", tcp.peer());
    lab::check_memory(4 * plan.size);
    serve(options, tcp, plan);
  }
}

void client(const lab::Options& options) {
  lab::check_memory(4 * options.size);
  rdma::TcpBootstrap tcp = lab::connect_tcp(options);
  for (const Mode mode : {Mode::send_only, Mode::recv_only, Mode::both, Mode::end}) {
    if (only && mode != *only && mode != Mode::end) continue;
    const Plan plan{mode, 0, options.size, options.iters};
    tcp.send_value(plan);
    if (mode != Mode::end) play(options, tcp, plan);
  }
  lab::shown("{} x {} bytes; completions at client/server: {}", options.iters, options.size,
             only == Mode::send_only   ? "WRITE+READ 2/0"
             : only == Mode::recv_only ? "RECV 1/1"
             : only == Mode::both      ? "SEND+RECV 2/2"
                                       : "WRITE+READ 2/0, RECV 1/1, SEND+RECV 2/2");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "across-hosts",
                   .idea = "What two hosts must tell each other, and who gets a completion",
                   .size = 4096,
                   .iters = 10,
                   .more =
                       [](lab::OwnOptions& own) {
                         own.choice("--mode", only,
                                    {{"send-only", Mode::send_only},
                                     {"recv-only", Mode::recv_only},
                                     {"both", Mode::both}},
                                    "Client: what its queue pair is for [each, in turn]");
                       }},
                  server, client);
}
