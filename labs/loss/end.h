#pragma once

// One end of one transfer, on a device that loses packets: step 1.

#include <algorithm>
#include <cstdlib>

#include "labs/common/bootstrap.h"

namespace loss {

constexpr std::size_t kWindow = 16;  // messages in flight

/// What the client tells the server before each transfer.
struct Plan {
  double percent;  // below 0: that was the last
  std::uint64_t size, iters;
};

/// For the device of this process, which reads it when it is opened. The other faults stay.
inline void lose(double percent) {
  if (percent == 0) return;
  const char* const others = std::getenv("VERBENA_FAULTS");
  setenv("VERBENA_FAULTS",
         fmt::format("{}{}drop={}%", others == nullptr ? "" : others, others == nullptr ? "" : ",",
                     percent)
             .c_str(),
         1);
}

/// One end of one transfer, in a process of its own.
struct End {
  // 1. Open the device, with the loss of this transfer; swap over the parents' socket.
  End(const lab::Options& options, rdma::TcpBootstrap& socket, const Plan& wanted,
      unsigned ack_timeout)
      : plan{wanted},
        tcp{socket},
        from{open(options, socket, wanted)},
        pd{from.context},
        cq{from.context, 2 * kWindow},
        qp{rdma::QueuePair::rc(pd).cq(cq).depth(kWindow, 1).sge(1, 1).create()},
        memory{pd, kWindow * plan.size, rdma::Access::remote_write} {
    qp.to_init();
    const rdma::ConnInfo local = rdma::ConnInfo{qp.info(1, from.gid)}.offer(memory.remote());
    const rdma::ConnInfo peer = tcp.exchange(local);
    qp.to_rtr({.path = qp.path_to(peer),
               .qpn = peer.qpn,
               .psn = peer.psn,
               .mtu = std::min(local.mtu, peer.mtu),
               .max_dest_rd_atomic = 1});
    qp.to_rts(
        {.psn = local.psn, .timeout = static_cast<std::uint8_t>(ack_timeout), .max_rd_atomic = 1});
    there = peer.remote();
    tcp.barrier();
  }
  static lab::Origin open(const lab::Options& options, const rdma::TcpBootstrap& tcp,
                          const Plan& plan) {
    lose(plan.percent);
    lab::Origin origin = lab::origin(options, tcp);
    lab::check_message_size(origin.context, plan.size);
    if (rdma::is_verbena(origin.context.name())) return origin;
    throw lab::Skipped{
        fmt::format("{} is hardware or the kernel's and loses nothing on request; Verbena's "
                    "devices (vb_...) do",
                    origin.context.name())};
  }
  [[nodiscard]] rdma::Slice slot(std::uint64_t i) const {
    return memory.slice(i % kWindow * plan.size, plan.size);
  }
  [[nodiscard]] rdma::RemoteBuffer slot_there(std::uint64_t i) const {
    return there.slice(i % kWindow * plan.size, plan.size);
  }

  Plan plan;
  rdma::TcpBootstrap& tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue cq;
  rdma::QueuePair qp;
  rdma::Buffer memory;
  rdma::RemoteBuffer there;
};

}  // namespace loss
