// Lab: pingpong
//
// Learn: two queue pairs need no connection manager. Each side tells the other {lid, qpn, psn, gid}
//        over any channel there is; ibv_modify_qp does the rest. The channel here is a TCP socket
//        and the words on it are those of ibv_rc_pingpong, so either end may be that program.
// Run:   verbena lab pingpong               both ends on this machine
//        verbena lab pingpong server | verbena lab pingpong client HOST
//        verbena lab pingpong server | verbena run -- ibv_rc_pingpong -g GID_INDEX HOST
// Try:   --size 1 --events --gid-index 0 --mtu 4096

#include <algorithm>

#include "labs/common/bootstrap.h"
#include "labs/common/rounds.h"
#include "labs/pingpong/stock_text.h"

namespace {

constexpr std::byte kFill{0x7b};  // what ibv_rc_pingpong sends

std::optional<int> gid_index;
unsigned mtu = 1024;  // bytes; the text doesn't tell it, so both sides must have chosen the same
bool events = false;

/// One end: a queue pair, memory to send, and room for two messages.
struct End {
  End(const lab::Options& options, rdma::TcpBootstrap socket)
      : tcp{std::move(socket)},
        from{lab::origin(options, tcp, gid_index)},
        pd{from.context},
        cq{from.context, 8},
        qp{rdma::QueuePair::rc(pd).cq(cq).depth(2, 4).sge(1, 1).create()},
        ping{pd, options.size},
        pong{pd, 2 * options.size} {
    std::ranges::fill(ping.bytes(), kFill);
  }

  // 2. INIT, then receives. The first message may come as soon as the peer knows us.
  rdma::ConnInfo introduce() {
    qp.to_init({.access = rdma::Access::none});
    post_receive();
    post_receive();
    return qp.info(1, from.gid);
  }
  // 4. RTR with what the peer said, RTS with what we said.
  void meet(const rdma::ConnInfo& peer) {
    const auto path_mtu = static_cast<ibv_mtu>(std::countr_zero(mtu) - 7);
    qp.to_rtr({.path = qp.path_to(peer),
               .qpn = peer.qpn,
               .psn = peer.psn,
               .mtu = path_mtu,
               .max_dest_rd_atomic = 1,
               .min_rnr_timer = 12});
    qp.to_rts({.psn = qp.info().psn, .max_rd_atomic = 1});
    lab::say("local  {}", pingpong::encode(qp.info()));
    lab::say("remote {}", pingpong::encode(peer));
  }

  void tell(const rdma::ConnInfo& info) {
    const std::string text = pingpong::encode(info);
    tcp.send_bytes(std::as_bytes(std::span{text.c_str(), pingpong::kTextSize}));
  }
  rdma::ConnInfo hear() {
    std::array<char, pingpong::kTextSize> text{};
    tcp.recv_bytes(std::as_writable_bytes(std::span{text}));
    const auto peer = pingpong::decode({text.data(), pingpong::kTextSize - 1});
    lab::check(peer.has_value(), "{} said something else than lid:qpn:psn:gid", tcp.peer());
    return *peer;
  }

  // 5. A side sends when its last message is acknowledged and the peer's has come: exactly
  //    one message is under way at any time.
  void play(const lab::Options& options, bool serves) {
    std::uint64_t sent = 0, received = 0;
    lab::Rounds progress{options.iters, !serves};
    bool acknowledged = true, my_turn = serves;
    while (sent < options.iters || received < options.iters || !acknowledged) {
      if (my_turn && acknowledged && sent < options.iters) {
        qp.post(rdma::Send{ping}.signaled()).check();
        ++sent;
        my_turn = acknowledged = false;
      }
      const auto done = events ? cq.wait(options.deadline) : cq.spin(options.deadline);
      lab::in_time(done.has_value(),
                   "message {} of {} (has {} ended, or does it run with another size or count?)",
                   received + 1, options.iters, tcp.peer());
      done->check();
      ++lab::costs().completions;
      if (!done->is_receive()) {
        acknowledged = true;
        continue;
      }
      check_message(*done, received++);
      progress.done(received);
      post_receive();
      my_turn = true;
    }
    lab::costs().needed = lab::costs().completions;
    lab::costs().round_trips = options.iters;
  }

  rdma::TcpBootstrap tcp;
  lab::Origin from;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue cq;
  rdma::QueuePair qp;
  rdma::Buffer ping, pong;
  std::size_t next_room = 0;

 private:
  std::span<std::byte> room(std::size_t i) {
    return pong.bytes().subspan(i * ping.size(), ping.size());
  }
  void post_receive() {
    std::ranges::fill(room(next_room), std::byte{0});
    qp.post(rdma::Recv{pong.slice(next_room * ping.size(), ping.size())}.id(next_room)).check();
    next_room = 1 - next_room;
  }
  void check_message(const rdma::Completion& done, std::uint64_t number) {
    lab::check(done.length() == ping.size(), "message {} has {} bytes instead of {}", number,
               done.length(), ping.size());
    const auto wrong =
        std::ranges::find_if(room(done.id()), [](std::byte b) { return b != kFill; });
    lab::check(wrong == room(done.id()).end(), "message {} has a byte {:#x} instead of {:#x}",
               number, std::to_integer<int>(*wrong), std::to_integer<int>(kFill));
  }
};

/// Whoever speaks the words of ibv_rc_pingpong is welcome: no badge of this lab is asked for.
rdma::TcpBootstrap wait_for_client(const lab::Options& options) {
  rdma::TcpListener listener{options.port};
  lab::ready(listener.port());
  try {
    return listener.accept(lab::time_left(options));
  } catch (const rdma::TimedOut&) {
    lab::nobody_came(options);
  }
}
rdma::TcpBootstrap go_to_server(const lab::Options& options) {
  try {
    return rdma::TcpBootstrap::connect(options.host, options.port, lab::time_left(options));
  } catch (const rdma::Error& error) {
    throw lab::Failed{lab::not_there(options, error)};
  }
}

void server(const lab::Options& options) {
  lab::check_memory(6 * options.size);
  // 1. Meet on TCP. Which device and which of its addresses: those that this socket uses.
  End end{options, wait_for_client(options)};
  lab::check_message_size(end.from.context, options.size);
  const rdma::ConnInfo local = end.introduce();
  // 3. The client tells first. It hears of us when we can receive, and confirms.
  end.meet(end.hear());
  end.tell(local);
  std::array<char, pingpong::kDone.size()> done{};
  end.tcp.recv_bytes(std::as_writable_bytes(std::span{done}));
  lab::check(done == pingpong::kDone, "the client said something else than done");
  end.play(options, false);
  lab::say_goodbye(options, std::move(end.tcp));
}

void client(const lab::Options& options) {
  lab::check_memory(6 * options.size);
  End end{options, go_to_server(options)};
  lab::check_message_size(end.from.context, options.size);
  end.tell(end.introduce());
  const rdma::ConnInfo peer = end.hear();
  end.tcp.send_bytes(std::as_bytes(std::span{pingpong::kDone}));
  end.meet(peer);

  const auto start = std::chrono::steady_clock::now();
  end.play(options, true);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  lab::say_goodbye(options, std::move(end.tcp));
  // 6. What ibv_rc_pingpong prints: bytes of both directions, and the time of a round trip.
  const auto count = static_cast<double>(options.iters);
  const double bits = 2 * 8 * count * static_cast<double>(options.size);
  lab::say("{} round trips of {} bytes in {:.2f} s: {:.2f} Mbit/s", options.iters, options.size,
           took.count() / 1e6, bits / took.count());
  lab::shown("{} ping-pongs of {} bytes over a queue pair made by hand, {:.1f} us each",
             options.iters, options.size, took.count() / count);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "pingpong",
       .idea = "RC ping-pong without rdma_cm; either end may be ibv_rc_pingpong",
       .size = 4096,
       .iters = 1000,
       .port = 18515,
       .more =
           [](lab::OwnOptions& own) {
             own.number("--gid-index", gid_index, {0, 255},
                        "Speak from this row [the one of the socket's address]");
             own.choice(
                 "--mtu", mtu,
                 {{"256", 256}, {"512", 512}, {"1024", 1024}, {"2048", 2048}, {"4096", 4096}},
                 "Bytes of a packet; the same at both ends");
             own.flag("--events", events, "Sleep until a completion comes, instead of polling");
           }},
      server, client);
}
