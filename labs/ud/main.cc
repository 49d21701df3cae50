// Lab: ud
//
// Learn: an unreliable datagram is one packet. One queue pair speaks with everybody, by address
//        handle; what arrives has 40 bytes of GRH in front, which tell who sent it. A success means
//        "sent", not "arrived": what finds no receive is gone, and nobody is told. A group's
//        datagram reaches every queue pair that is attached to the group.
// Run:   verbena lab ud                     both ends on this machine
//        verbena lab ud server | verbena lab ud client HOST
// Try:   --iters 10 --size 4096 --drop 10%

#include "labs/common/cost.h"
#include "labs/ud/burst.h"
#include "labs/ud/question.h"

using namespace ud;

namespace {

void server(const lab::Options& options) {
  End end{options, lab::accept_tcp(options)};
  end.tcp.barrier();
  lab::Work work;
  const auto sent = end.tcp.recv_value<std::uint64_t>();
  const std::uint64_t received = receive_burst(end, nullptr).size();
  lab::check(received > 0 && received <= sent, "{} datagrams of {} arrived", received, sent);
  lab::say("{} of {} datagrams, all from {}: {} receives were posted", received, sent,
           end.peer.gid.to_string(), kReceives);
  end.port.refill();
  end.tcp.send_value(received);
  answer_questions(end);
  work.done();
  end.tcp.barrier();

  // 5. The port joins the group, through rdma_cm; two queue pairs are attached to it.
  DatagramPort second{end.pd, end.sent, end.cq, end.from.gid, options.size};
  std::optional<rdma::Multicast> group;
  try {
    if (end.from.gid.gid == rdma::Gid::parse("::1")) {
      throw rdma::Error{"rdma_join_multicast", end.group(), ENETUNREACH,
                        "the loopback interface has no route for IPv6 groups"};
    }
    group.emplace(end.pd, end.port.qp, end.group());
    second.qp.attach(group->gid());
  } catch (const rdma::Error& error) {
    lab::say("no multicast on {}: {}", end.from.context.name(), error.what());
    group.reset();
  }
  end.tcp.send_value(group.has_value());
  if (!group) return;
  const auto to_group = end.tcp.recv_value<std::uint64_t>();
  const auto seen = receive_burst(end, &second);
  const auto copies = static_cast<std::uint64_t>(
      std::ranges::count_if(seen, [](const auto& one) { return one.first; }));
  lab::say("{} datagrams to the group: {} and {} arrived at the two queue pairs", to_group,
           seen.size() - copies, copies);
  lab::check(copies > 0 && copies < seen.size(), "a queue pair of the group got nothing");
  second.qp.detach(group->gid());
  end.tcp.send_value(std::uint64_t{seen.size()});
}

void client(const lab::Options& options) {
  End end{options, lab::connect_tcp(options)};
  const rdma::AddressHandle to_server{end.pd, end.port.qp.path_to(end.peer)};
  end.tcp.barrier();
  lab::Work work;
  send_burst(end, to_server, end.peer.qpn);
  const auto received = end.tcp.recv_value<std::uint64_t>();
  lab::say("{} datagrams completed with success; {} arrived", options.iters, received);
  lab::say("an answer came; questions sent: {}", ask(end, to_server));
  work.done();
  end.tcp.barrier();
  std::string copies = "no multicast here";
  if (end.tcp.recv_value<bool>()) {
    // 6. Who sends to a group joins it as well: the network must know the way.
    const rdma::Multicast group{end.pd, end.port.qp, end.group()};
    send_burst(end, group.address(), group.qpn());
    const auto arrived = end.tcp.recv_value<std::uint64_t>();
    lab::say("{} datagrams to {}: {} arrivals", options.iters, end.group(), arrived);
    copies = fmt::format("{} to a group of two arrived {} times", options.iters, arrived);
  }
  lab::shown("{} datagrams sent, {} lost, none reported; {}", options.iters,
             options.iters - received, copies);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "ud",
                   .idea = "Datagrams: address handles, the GRH, multicast, and what is lost",
                   .size = 256,
                   .iters = 100},
                  server, client);
}
