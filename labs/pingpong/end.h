#pragma once

// One end of the game: steps 2, 4 and 5.

#include <algorithm>
#include <bit>

#include "labs/common/bootstrap.h"
#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/pingpong/stock_text.h"

namespace pingpong {

constexpr std::byte kFill{0x7b};  // what ibv_rc_pingpong sends

struct Settings {
  std::optional<int> gid_index{};
  unsigned mtu = 1024;  // bytes; the text doesn't tell it, so both sides must choose the same
  bool events = false;
};

/// A queue pair, memory to send, and room for two messages.
struct End {
  End(const lab::Options& options, const Settings& chosen, rdma::TcpBootstrap socket)
      : settings{chosen},
        tcp{std::move(socket)},
        from{lab::origin(options, tcp, settings.gid_index)},
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
    const auto path_mtu = static_cast<ibv_mtu>(std::countr_zero(settings.mtu) - 7);
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
    lab::check(peer.has_value(), "{} sent something other than lid:qpn:psn:gid", tcp.peer());
    return *peer;
  }

  // 5. A side sends when its last message is acknowledged and the peer's has come: exactly
  //    one message is under way at any time.
  void play(const lab::Options& options, bool serves) {
    lab::Work work;
    std::uint64_t sent = 0, received = 0;
    lab::Rounds progress{options.iters, !serves};
    bool acknowledged = true, my_turn = serves;
    while (sent < options.iters || received < options.iters || !acknowledged) {
      if (my_turn && acknowledged && sent < options.iters) {
        qp.post(rdma::Send{ping}.signaled()).check();
        ++sent;
        my_turn = acknowledged = false;
      }
      const auto done = settings.events ? cq.wait(options.deadline) : cq.spin(options.deadline);
      lab::in_time(done.has_value(),
                   "message {} of {} (has {} ended, or does it run with another size or count?)",
                   received + 1, options.iters, tcp.peer());
      done->check();
      if (!done->is_receive()) {
        acknowledged = true;
        continue;
      }
      check_message(*done, received++);
      progress.done(received);
      post_receive();
      my_turn = true;
    }
    work.done({.round_trips = options.iters, .needed = 2 * options.iters});
  }

  Settings settings;
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

}  // namespace pingpong
