#pragma once

// Many datagrams at once, and how many of them arrive: steps 2 and 3.

#include <set>

#include "labs/common/pattern.h"
#include "labs/ud/end.h"

namespace ud {

/// 2. Numbered datagrams, as fast as they leave. Each completes with success.
inline void send_burst(End& end, const rdma::AddressHandle& to, std::uint32_t qpn) {
  for (std::uint64_t i = 0; i < end.options.iters; ++i) {
    const auto number = static_cast<std::uint32_t>(i) & 0x7fff'ffff;
    lab::fill_pattern(end.message.bytes(), number);
    end.send(rdma::Send{end.message}.imm(number).to(to, qpn, kQkey));
  }
  end.tcp.send_value(end.options.iters);
}

/// 3. Those that arrive at one of two ports until it is quiet: {second, number}. Meanwhile no
///    receive is posted, so at most kReceives of them fit.
inline auto receive_burst(End& end, DatagramPort* second) {
  std::set<std::pair<bool, std::uint32_t>> seen;
  while (const auto done = end.cq.wait(kQuiet)) {
    const bool other = second != nullptr && done->qp_num == second->qp.number();
    const auto datagram = (other ? *second : end.port).take(*done);
    if (done->imm() == kQuestion) continue;  // asked twice, and late
    const rdma::Gid source = source_of(datagram);
    lab::check(source == end.peer.gid, "a datagram from {}, not from {}", source.to_string(),
               end.peer.gid.to_string());
    lab::check_pattern(datagram.subspan(kGrh), done->imm(), "a datagram");
    seen.emplace(other, done->imm());
  }
  return seen;
}

}  // namespace ud
