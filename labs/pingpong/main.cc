// Lab: pingpong
//
// Learn: two queue pairs need no connection manager. Each side tells the other {lid, qpn, psn, gid}
//        over any channel there is; ibv_modify_qp does the rest. The channel here is a TCP socket
//        and the words on it are those of ibv_rc_pingpong, so either end may be that program.
// Run:   verbena lab pingpong               both ends on this machine
//        verbena lab pingpong server | verbena lab pingpong client HOST
//        verbena lab pingpong server | verbena run -- ibv_rc_pingpong -g GID_INDEX HOST
// Try:   --size 1 --events --gid-index 0 --mtu 4096

#include "labs/pingpong/end.h"

using pingpong::End;

namespace {

pingpong::Settings settings;

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
  End end{options, settings, wait_for_client(options)};
  lab::check_message_size(end.from.context, options.size);
  // 2. INIT, and receives.
  const rdma::ConnInfo local = end.introduce();
  // 3. The client tells first. It hears of us when we can receive, and confirms.
  // 4. RTR and RTS.
  end.meet(end.hear());
  end.tell(local);
  std::array<char, pingpong::kDone.size()> done{};
  end.tcp.recv_bytes(std::as_writable_bytes(std::span{done}));
  lab::check(done == pingpong::kDone, "the client sent something other than \"done\"");
  // 5. Ping-pong.
  end.play(options, false);
  lab::say_goodbye(options, std::move(end.tcp));
}

void client(const lab::Options& options) {
  lab::check_memory(6 * options.size);
  End end{options, settings, go_to_server(options)};
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
             own.number("--gid-index", settings.gid_index, {0, 255},
                        "Row of the GID table to use [the one of the socket's address]");
             own.choice(
                 "--mtu", settings.mtu,
                 {{"256", 256}, {"512", 512}, {"1024", 1024}, {"2048", 2048}, {"4096", 4096}},
                 "Bytes of a packet; the same at both ends");
             own.flag("--events", settings.events,
                      "Sleep until a completion comes, instead of polling");
           }},
      server, client);
}
