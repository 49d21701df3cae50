#pragma once

// One end: a UD queue pair with receives, and the other end's number. Step 1.

#include "labs/common/bootstrap.h"
#include "labs/ud/datagram_port.h"

namespace ud {

constexpr std::uint32_t kQuestion = 0xffff'ffff;  // in immediate data, where a burst counts
// Nothing tells that a datagram was lost. Only a clock can: after so long it won't come any more.
constexpr auto kQuiet = std::chrono::milliseconds{200};

struct End {
  End(const lab::Options& given, rdma::TcpBootstrap socket)
      : options{given},
        tcp{std::move(socket)},
        from{lab::origin(options, tcp)},
        pd{from.context},
        sent{from.context, 16},
        cq{from.context, 2 * kReceives},
        port{pd, sent, cq, from.gid, options.size},  // 1. activated, with receives posted
        message{pd, options.size},
        peer{tcp.exchange(port.qp.info())} {
    const std::size_t mtu = 128u << std::min(port.qp.info().mtu, peer.mtu);
    if (options.size <= mtu) return;
    throw lab::Refused{fmt::format("--size {}: a datagram is one packet; to {} that is {} bytes",
                                   options.size, peer.gid.to_string(), mtu)};
  }
  void send(rdma::Send request) {
    port.qp.post(request.signaled()).check();
    const auto left = sent.wait(options.deadline);
    lab::in_time(left.has_value(), "a datagram to leave");
    left->check();
  }
  const char* group() const { return from.gid.gid.is_ipv4() ? "239.86.66.1" : "ff0e::5642:1"; }

  const lab::Options& options;
  rdma::TcpBootstrap tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue sent, cq;
  DatagramPort port;
  rdma::Buffer message;
  rdma::ConnInfo peer;
};

}  // namespace ud
