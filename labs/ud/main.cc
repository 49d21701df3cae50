// Lab: ud
//
// Learn: an unreliable datagram is one packet. One queue pair speaks with everybody, by address
//        handle; what arrives has 40 bytes of GRH in front, which tell who sent it. A success means
//        "sent", not "arrived": what finds no receive is gone, and nobody is told. A group's
//        datagram reaches every queue pair that is attached to the group.
// Run:   verbena lab ud                     both ends on this machine
//        verbena lab ud server | verbena lab ud client HOST
// Try:   --iters 10 --size 4096 --drop 10%

#include <set>

#include "labs/common/bootstrap.h"
#include "labs/common/pattern.h"
#include "labs/ud/datagram_port.h"

namespace {

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
        cq{from.context, 2 * ud::kReceives},
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
    ++lab::costs().completions;
  }
  const char* group() const { return from.gid.gid.is_ipv4() ? "239.86.66.1" : "ff0e::5642:1"; }

  const lab::Options& options;
  rdma::TcpBootstrap tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue sent, cq;
  ud::DatagramPort port;
  rdma::Buffer message;
  rdma::ConnInfo peer;
};

// 2. Numbered datagrams, as fast as they leave. Each completes with success.
void send_burst(End& end, const rdma::AddressHandle& to, std::uint32_t qpn) {
  for (std::uint64_t i = 0; i < end.options.iters; ++i) {
    const auto number = static_cast<std::uint32_t>(i) & 0x7fff'ffff;
    lab::fill_pattern(end.message.bytes(), number);
    end.send(rdma::Send{end.message}.imm(number).to(to, qpn, ud::kQkey));
  }
  end.tcp.send_value(end.options.iters);
}

// 3. What came of them to one of two ports, until it is quiet: {port, number}. No receive is posted
//    meanwhile, so that at most kReceives of them fit.
auto receive_burst(End& end, ud::DatagramPort* second) {
  std::set<std::pair<bool, std::uint32_t>> seen;
  while (const auto done = end.cq.wait(kQuiet)) {
    const bool other = second != nullptr && done->qp_num == second->qp.number();
    const auto datagram = (other ? *second : end.port).take(*done);
    if (done->imm() == kQuestion) continue;  // asked twice, and late
    const rdma::Gid source = ud::source_of(datagram);
    lab::check(source == end.peer.gid, "a datagram from {}, not from {}", source.to_string(),
               end.peer.gid.to_string());
    lab::check_pattern(datagram.subspan(ud::kGrh), done->imm(), "a datagram");
    seen.emplace(other, done->imm());
  }
  return seen;
}

// 4. An answer to whoever asks: the completion and the GRH make the address handle. The question,
//    or the answer, may be lost; then it is asked again.
void answer_questions(End& end) {
  pollfd over{.fd = end.tcp.fd(), .events = POLLIN, .revents = 0};
  while (poll(&over, 1, 0) == 0) {
    const auto done = end.cq.wait(kQuiet);
    if (!done) continue;
    const auto question = end.port.take(*done);
    if (done->imm() != kQuestion) continue;  // of the burst, and late
    const auto back = rdma::AddressHandle::reply_to(end.pd, *done, question.data());
    end.message.bytes()[0] = question[ud::kGrh];
    end.send(rdma::Send{end.message}.imm(done->imm()).to(back, done->src_qp, ud::kQkey));
    end.port.refill();
  }
}

/// How often it was asked.
int ask(End& end, const rdma::AddressHandle& server) {
  for (int times = 1;; ++times) {
    lab::check(!rdma::Deadline{end.options.deadline}.passed(), "no answer to {} questions", times);
    end.message.bytes()[0] = std::byte{42};
    end.send(rdma::Send{end.message}.imm(kQuestion).to(server, end.peer.qpn, ud::kQkey));
    const auto done = end.cq.wait(kQuiet);
    if (!done) continue;
    const auto answer = end.port.take(*done);
    lab::check(answer[ud::kGrh] == std::byte{42} && done->src_qp == end.peer.qpn, "wrong answer");
    return times;
  }
}

void server(const lab::Options& options) {
  End end{options, lab::accept_tcp(options)};
  end.tcp.barrier();
  const auto sent = end.tcp.recv_value<std::uint64_t>();
  const std::uint64_t received = receive_burst(end, nullptr).size();
  lab::check(received > 0 && received <= sent, "{} datagrams of {} arrived", received, sent);
  lab::say("{} of {} datagrams, all from {}: {} receives were posted", received, sent,
           end.peer.gid.to_string(), ud::kReceives);
  end.port.refill();
  end.tcp.send_value(received);
  answer_questions(end);
  end.tcp.barrier();

  // 5. The port joins the group, through rdma_cm; two queue pairs are attached to it.
  ud::DatagramPort second{end.pd, end.sent, end.cq, end.from.gid, options.size};
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
  lab::say("of {} to the group, {} and {} arrived at two queue pairs", to_group,
           seen.size() - copies, copies);
  lab::check(copies > 0 && copies < seen.size(), "a queue pair of the group got nothing");
  second.qp.detach(group->gid());
  end.tcp.send_value(std::uint64_t{seen.size()});
}

void client(const lab::Options& options) {
  End end{options, lab::connect_tcp(options)};
  const rdma::AddressHandle to_server{end.pd, end.port.qp.path_to(end.peer)};
  end.tcp.barrier();
  send_burst(end, to_server, end.peer.qpn);
  const auto received = end.tcp.recv_value<std::uint64_t>();
  lab::say("{} datagrams completed with success; {} arrived", options.iters, received);
  lab::say("an answer came, after {} questions", ask(end, to_server));
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
