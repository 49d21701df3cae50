// Lab: srq
//
// Learn: receives needn't belong to one queue pair. Any number of clients draw from one shared
//        queue, whose size follows the traffic and not the number of clients. When it gets low the
//        device says so, once, with an asynchronous event: then the server refills it.
// Run:   verbena lab srq                    both ends on this machine
//        verbena lab srq server | verbena lab srq client HOST --clients 16
// Try:   --clients 32 --receives 8 --stats

#include "labs/common/bootstrap.h"
#include "labs/common/rounds.h"
#include "labs/srq/server.h"

namespace {

constexpr std::size_t kWindow = 8;  // messages that a client has under way
std::uint32_t clients = 4;
std::uint32_t receives = 64;  // in the shared queue

void check_device(const lab::Options& options, const rdma::Context& context) {
  lab::check_memory((receives + clients * kWindow) * options.size);
  lab::check_message_size(context, options.size);
  const auto most = static_cast<std::uint32_t>(context.limits().max_srq_wr);
  if (context.limits().max_srq == 0) {
    throw lab::Skipped{fmt::format("{} has no shared receive queues", context.name())};
  }
  if (receives > most) {
    throw lab::Refused{fmt::format("--receives {} exceeds max_srq_wr of {}, {}: choose less",
                                   receives, context.name(), most)};
  }
}

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  std::optional<srq::Server> server;
  auto connections =
      lab::accept_crowd(options, listener, [&](auto& request, const lab::Crowd& crowd) {
        if (!server) {
          check_device(options, request.context());
          server.emplace(options, request.context(), receives);
        }
        return server->accept(request, crowd);
      });
  server->serve();
  lab::wait_for_goodbyes(options, connections);
}

// 3. A client knows nothing of all this. When no receive is left its messages wait (RNR).
std::uint64_t send_all(const lab::Options& options, std::size_t number,
                       rdma::Connection& connection) {
  rdma::Buffer messages = connection.buffer(kWindow * options.size);
  lab::Work work;
  for (const std::uint64_t i : lab::Rounds{options.iters, number == 0}) {
    if (i >= kWindow) connection.wait().check();
    const std::size_t at = i % kWindow * options.size;
    lab::fill_pattern(messages.bytes().subspan(at, options.size), srq::seed_of(number, i));
    connection
        .post(rdma::Send{messages.slice(at, options.size)}
                  .imm(static_cast<std::uint32_t>(i))
                  .signaled())
        .check();
  }
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(kWindow, options.iters); ++i)
    connection.wait().check();
  work.done();
  return options.iters;
}

void client(const lab::Options& options) {
  check_device(options, rdma::Context{rdma::choose_device(options.device, options.host)});
  auto connections = lab::connect_crowd(options, clients);
  std::uint64_t sent = 0;
  for (const std::uint64_t one :
       lab::all_at_once(connections, [&](std::size_t i, rdma::Connection&connection) {
         return send_all(options, i, connection);
       }))
    sent += one;
  for (rdma::Connection& connection : connections) lab::say_goodbye(options, connection);
  lab::shown("{} messages of {} clients through one queue of {} receives, each in order", sent,
             clients, receives);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "srq",
       .idea = "Many clients, one receive queue, and the event when few receives are left",
       .size = 1024,
       .iters = 500,
       .more =
           [](lab::OwnOptions& own) {
             own.number("--clients", clients, {1, lab::kMostClients}, "Clients at the same time");
             own.number("--receives", receives, {1, 1u << 20},
                        "Receives in the shared queue; the event comes below a quarter of them");
           }},
      server, client);
}
