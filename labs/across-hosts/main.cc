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
// Try:   --mode send-only --size 1M --pcap across.pcapng; --mode both --without barrier

#include <thread>

#include "labs/across-hosts/end.h"
#include "labs/common/cost.h"
#include "labs/common/rounds.h"

using namespace across_hosts;

namespace {

std::optional<Mode> only;  // else one after the other
std::uint32_t barrier = 1;

/// Without the barrier the server may be in RTR too late. Here it is.
constexpr std::chrono::milliseconds kLate{20};

void serve(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan};
  lab::fill_pattern(end.out.bytes(), kServer);
  if (plan.mode == Mode::both) end.post_receive();
  const rdma::ConnInfo peer = end.swap();
  if (plan.barrier == 0) std::this_thread::sleep_for(kLate);
  end.connect(peer);
  lab::Work work;
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
  work.done();
  end.finish(plan.mode == Mode::both        ? 2 * plan.iters
             : plan.mode == Mode::recv_only ? plan.iters
                                            : 0);
  if (plan.mode == Mode::send_only) lab::check_pattern(end.in.bytes(), kClient, "written");
}

void play(const lab::Options& options, rdma::TcpBootstrap& tcp, const Plan& plan) {
  End end{options, tcp, plan};
  lab::fill_pattern(end.out.bytes(), kClient);
  if (plan.mode != Mode::send_only) end.post_receive();
  const rdma::ConnInfo peer = end.swap();
  end.connect(peer);
  const rdma::RemoteBuffer there = peer.remote();
  lab::Work work;
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
  work.done();
  end.finish(plan.mode == Mode::recv_only ? plan.iters : 2 * plan.iters);
}

void server(const lab::Options& options) {
  rdma::TcpBootstrap tcp = lab::accept_tcp(options);
  while (true) {
    const auto plan = tcp.recv_value<Plan>();
    if (plan.mode == Mode::end) return;
    lab::check(plan.mode < Mode::end && plan.size > 0, "{} sent a plan that this lab doesn't know",
               tcp.peer());
    lab::check_memory(4 * plan.size);
    serve(options, tcp, plan);
  }
}

void client(const lab::Options& options) {
  lab::check_memory(4 * options.size);
  rdma::TcpBootstrap tcp = lab::connect_tcp(options);
  for (const Mode mode : {Mode::send_only, Mode::recv_only, Mode::both, Mode::end}) {
    if (only && mode != *only && mode != Mode::end) continue;
    const Plan plan{mode, barrier, options.size, options.iters};
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
  return lab::run(
      argc, argv,
      {.name = "across-hosts",
       .idea = "Exchange of addresses over TCP; which end gets a completion for which operation",
       .size = 4096,
       .iters = 10,
       .layout = 2,
       .more =
           [](lab::OwnOptions& own) {
             own.choice("--mode", only,
                        {{"send-only", Mode::send_only},
                         {"recv-only", Mode::recv_only},
                         {"both", Mode::both}},
                        "Client: what its queue pair is for [each, in turn]");
             own.choice("--without", barrier, {{"barrier", 0}},
                        "Client: send at once, to a server that is late in step 4");
           }},
      server, client);
}
