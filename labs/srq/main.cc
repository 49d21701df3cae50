// Lab: srq
//
// Learn: receives needn't belong to one queue pair. Any number of clients draw from one shared
//        queue, whose size follows the traffic and not the number of clients. When it gets low the
//        device says so, once, with an asynchronous event: then the server refills it.
// Run:   verbena lab srq                    both ends on this machine
//        verbena lab srq server | verbena lab srq client HOST --clients 16
// Try:   --clients 32 --receives 8 --stats

#include <algorithm>
#include <map>

#include "labs/common/bootstrap.h"
#include "labs/common/clients.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"

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

std::uint64_t seed_of(std::uint64_t client, std::uint64_t message) {
  return client * 1'000'003 + message;
}

class Server {
 public:
  // 1. One queue of receives, and one completion queue for what they become.
  Server(const lab::Options& options, const rdma::Context& context)
      : options_{options},
        context_{rdma::Context{context.share()}},
        pd_{context_},
        srq_{pd_, receives, 1},
        cq_{context_, static_cast<int>(receives)},
        room_{pd_, receives * options.size} {
    for (std::uint32_t slot = 0; slot < receives; ++slot) empty_.push_back(slot);
    refill();
  }
  // 2. Every connection draws from them.
  rdma::Connection accept(rdma::ConnectionRequest& request, const lab::Crowd& crowd) {
    rdma::ConnectionOptions answer = lab::within(options_);
    answer.pd = &pd_;
    answer.srq = &srq_;
    answer.recv_cq = &cq_;
    rdma::Connection connection = lab::accept(options_, request, answer);
    senders_[connection.qp().number()] = {crowd.number, 0};
    left_ += crowd.iters;
    return connection;
  }

  // 4. Take messages; refill when the device says that few receives are left, and only then.
  void serve() {
    while (true) {
      while (const auto done = cq_.poll()) take(*done);
      if (left_ == 0) break;
      if (empty_.size() == receives) {
        ++dry_;  // nobody can send until we post
        refill();
      }
      if (!cq_.armed()) {
        cq_.arm();
        continue;  // what came between poll and arm makes no event
      }
      pollfd waiting[] = {{.fd = cq_.fd(), .events = POLLIN, .revents = 0},
                          {.fd = context_.event_fd(), .events = POLLIN, .revents = 0}};
      const int ready = poll(waiting, 2, rdma::Deadline{options_.deadline}.poll_timeout());
      lab::in_time(ready != 0, "{} more messages", left_);
      if (waiting[0].revents != 0) cq_.take_event();
      if (waiting[1].revents != 0) on_event();
    }
    lab::say("{} messages of {} clients through {} receives; {} limit events, {} times dry", taken_,
             senders_.size(), receives, events_, dry_);
    lab::check(taken_ < receives || events_ + dry_ > 0,
               "{} messages, but the limit was never reached", taken_);
  }

 private:
  struct Sender {
    std::uint32_t number;
    std::uint64_t next;
  };

  void refill() {
    for (const std::uint64_t slot : empty_) {
      srq_.post(rdma::Recv{room_.slice(slot * options_.size, options_.size)}.id(slot)).check();
    }
    empty_.clear();
    srq_.set_limit(std::max(receives / 4, 1u));  // after the event it is off: set it again
  }
  void on_event() {
    const auto event = context_.next_event(std::chrono::seconds{0});
    if (!event || event->type != IBV_EVENT_SRQ_LIMIT_REACHED || event->object != srq_.raw()) return;
    ++events_;
    while (const auto done = cq_.poll()) take(*done);
    refill();
  }
  // 5. The receive says nothing about who sent it; the queue pair number does. The messages of each
  //    client come in its order, those of several in any.
  void take(const rdma::Completion& done) {
    done.check();
    Sender& sender = senders_.at(done.qp_num);
    lab::check(done.length() == options_.size,
               "{} bytes instead of {}; have both ends the same --size?", done.length(),
               options_.size);
    lab::check(done.imm() == static_cast<std::uint32_t>(sender.next),
               "client {}: message {} instead of {}", sender.number, done.imm(), sender.next);
    lab::check_pattern(room_.bytes().subspan(done.id() * options_.size, options_.size),
                       seed_of(sender.number, sender.next), "a message");
    ++sender.next;
    ++taken_;
    --left_;
    empty_.push_back(done.id());
    ++lab::costs().completions, ++lab::costs().needed;
  }

  const lab::Options& options_;
  rdma::Context context_;
  rdma::ProtectionDomain pd_;
  rdma::SharedReceiveQueue srq_;
  rdma::CompletionQueue cq_;
  rdma::Buffer room_;
  std::vector<std::uint64_t> empty_;
  std::map<std::uint32_t, Sender> senders_;
  std::uint64_t left_ = 0, taken_ = 0, events_ = 0, dry_ = 0;
};

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  std::optional<Server> server;
  auto connections =
      lab::accept_crowd(options, listener, [&](auto& request, const lab::Crowd& crowd) {
        if (!server) {
          check_device(options, request.context());
          server.emplace(options, request.context());
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
  for (const std::uint64_t i : lab::Rounds{options.iters, number == 0}) {
    if (i >= kWindow) connection.wait().check();
    const std::size_t at = i % kWindow * options.size;
    lab::fill_pattern(messages.bytes().subspan(at, options.size), seed_of(number, i));
    connection
        .post(rdma::Send{messages.slice(at, options.size)}
                  .imm(static_cast<std::uint32_t>(i))
                  .signaled())
        .check();
  }
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(kWindow, options.iters); ++i)
    connection.wait().check();
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
       .idea = "Many clients, one queue of receives, and the event that says it is low",
       .size = 1024,
       .iters = 500,
       .more =
           [](lab::OwnOptions& own) {
             own.number("--clients", clients, {1, lab::kMostClients}, "How many at once");
             own.number("--receives", receives, {1, 1u << 20},
                        "In the shared queue; the event comes below a quarter of them");
           }},
      server, client);
}
