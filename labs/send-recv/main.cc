// Lab: send-recv
//
// Learn: two-sided. Receives come first; the n-th message meets the n-th receive, whatever its
//        size; wr_id tells which; a receive serves once and is posted again. Both sides may use
//        several pieces of memory, cut differently. Without a receive the sender waits (RNR).
// Run:   verbena lab send-recv              both ends on this machine
//        verbena lab send-recv server | verbena lab send-recv client HOST
// Try:   --iters 10000 --size 64 --stats; --look-late; --pcap rnr.pcapng --iters 1

#include <atomic>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/rounds.h"
#include "labs/common/terms.h"
#include "labs/send-recv/receiving.h"

using namespace send_recv;

namespace {

constexpr std::size_t kMost = std::size_t{1} << 27;
constexpr auto kLate = std::chrono::milliseconds{50};
bool look_late = false;  // at a message when its receive has been posted again, and used

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);
  // 1. Memory for the receives: each scatters to two pieces, see Room.
  rdma::ProtectionDomain pd{request.context()};
  const Room room{pd, options.size};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  // 2. Before the connection is accepted: the client can't send before there are receives.
  answer.prepare = [&](rdma::Connection& connection) {
    for (std::uint64_t id = 0; id < std::min(kReceives, options.iters); ++id) {
      connection.post(room.receive(id)).check();
    }
  };
  rdma::Connection connection = lab::accept(options, request, answer);

  // 4. Take the messages, see receiving.h.
  lab::Work work;
  const Header last = look_late ? receive_and_look_late(connection, room, options)
                                : receive_all(connection, room, options);
  work.done({.needed = options.iters});
  lab::say("{} messages, each in its turn; {} receives, posted again and again", options.iters,
           std::min(kReceives, options.iters));

  // 6. Look at the client's flag (READs aren't held up: they go the other way), then be ready.
  rdma::Buffer seen = connection.buffer(sizeof(std::uint64_t));
  while (seen.as<std::uint64_t>()[0] == 0) connection.read(seen, last.flag);
  connection.post(room.receive(options.iters)).check();
  room.check(connection.wait().check(), options.iters, options.size);
  lab::wait_for_goodbye(options, connection);
}

void client(const lab::Options& options) {
  rdma::ConnectionOptions wish = lab::within(options);
  wish.offer(lab::terms(options));
  rdma::Connection connection = lab::connect(options, wish);
  rdma::Buffer headers = connection.buffer(kReceives * sizeof(Header));
  rdma::Buffer bodies = connection.buffer(kReceives * options.size);
  rdma::Buffer trailers = connection.buffer(kReceives * sizeof(Trailer));
  rdma::Buffer flag = connection.buffer(sizeof(std::uint64_t), rdma::Access::remote_read);

  const auto message = [&](std::uint64_t number) {
    const std::size_t place = number % kReceives, length = length_of(number, options.size);
    headers.as<Header>()[place] = {number, length, flag.remote()};
    lab::fill_pattern(bodies.bytes().subspan(place * options.size, length), number);
    trailers.as<Trailer>()[place] = number;
    return rdma::Send{{headers.slice(place * sizeof(Header), sizeof(Header)),
                       bodies.slice(place * options.size, length),
                       trailers.slice(place * sizeof(Trailer), sizeof(Trailer))}}
        .id(number);
  };

  lab::Work work;
  // 3. Bursts of messages of different lengths, each gathered from three pieces. The completion of
  //    the last one says that the server's device took them all.
  lab::Rounds progress{options.iters};
  for (std::uint64_t first = 0; first < options.iters; first += kReceives) {
    progress.done(first);
    std::vector<rdma::Send> burst;
    for (std::uint64_t i = first; i < std::min(first + kReceives, options.iters); ++i) {
      burst.push_back(message(i));
    }
    burst.back().signaled();
    connection.post(std::span{burst}).check();
    lab::check(connection.wait().check().id() == burst.back().id(), "out of order");
  }
  const std::uint64_t bursts = (options.iters + kReceives - 1) / kReceives;
  work.done({.round_trips = bursts, .needed = bursts});
  lab::say("{} messages of {} to {} bytes of body, three pieces each", options.iters, 1,
           options.size);

  // 5. One more, for which there is no receive. That is no error: the server's device answers
  //    "receiver not ready", and ours tries again after a while (rnr_retry 7: for ever).
  connection.post(message(options.iters).signaled()).check();
  const auto early = connection.wait(kLate);
  lab::check(!early, "a message without a receive was answered: {}", early ? early->message() : "");
  const auto before = std::chrono::steady_clock::now();
  std::atomic_ref{flag.as<std::uint64_t>()[0]}.store(1, std::memory_order_release);
  connection.wait().check();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - before;
  lab::say(
      "one more, without a receive: not done after {} ms, then done within {:.1f} ms of "
      "telling the server to post one",
      kLate.count(), took.count());
  lab::say_goodbye(options, connection);
  lab::shown("{} messages in order through {} receives; one waited for its receive (RNR)",
             options.iters + 1, std::min(kReceives, options.iters));
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "send-recv",
                   .idea = "SEND and RECV: receives first, matched in order, several pieces, RNR",
                   .most = kMost,
                   .iters = 1000,
                   .more =
                       [](lab::OwnOptions& own) {
                         own.flag("--look-late", look_late,
                                  "Server: post each receive again before looking at its message");
                       }},
                  server, client);
}
