// Lab: errors
//
// Learn: seven ways for a request to fail, each caused on purpose: what was done, which status
//        each end sees, what becomes of the requests behind it, and how the queue pair comes back:
//        RESET, INIT, RTR, RTS, with fresh PSNs on both ends.
// Run:   verbena lab errors                 both ends on this machine
//        verbena lab errors server | verbena lab errors client HOST
// Try:   --iters 10; --pcap errors.pcapng, and look for the NAKs

#include "labs/common/terms.h"
#include "labs/errors/deeds.h"

namespace {

using namespace errors;

constexpr std::size_t kMost = std::size_t{1} << 20;
constexpr int kTries = 5;

/// A line for the first round only; the others are the same.
using Tell = bool;

/// What comes of it at the client. False: it has to be done again.
bool client_part(Victim& victim, const Case& c, Tell tell) {
  // None of them was signalled: failures complete all the same. In ERR, the rest is flushed.
  post(victim, c.deed);
  const rdma::Completion done = victim.next();
  victim.expect(2, IBV_WC_WR_FLUSH_ERR);
  const std::string state = victim.state();
  lab::check(done.id() == 1 && state == "ERR", "in state {}: {}", state, done.message());
  if (done.status == IBV_WC_RETRY_EXC_ERR && c.status != IBV_WC_RETRY_EXC_ERR) {
    lab::say(
        "the network lost the server's NAK, and a queue pair in ERR sends no second one: try "
        "again");
    return false;
  }
  lab::check(done.status == c.status || (c.deed == Deed::too_long && done.status == kRxeSender),
             "expected {}, got {}", rdma::explain(c.status).name, done.message());
  if (tell) {
    lab::say("{:<18} {}; the request behind it: WR_FLUSH_ERR; state {}",
             rdma::explain(done.status).name, c.words, state);
  }
  return true;
}

/// 4. What the server sees of it. Mostly nothing: failures belong to who asked.
void server_part(Victim& victim, const Case& c, const rdma::Context& context, Tell tell) {
  if (c.deed == Deed::too_long) {
    const rdma::Completion done = victim.next();
    lab::check(done.id() == 7 && (done.status == IBV_WC_LOC_LEN_ERR || done.status == kRxeReceiver),
               "the receive that was too short ended with {}", done.message());
    if (tell) {
      lab::say("{:<18} its receive was too short for the message; state {}",
               rdma::explain(done.status).name, victim.state());
    }
  }
  while (const auto event = context.next_event(std::chrono::seconds{0})) {
    if (tell) lab::say("{:<18} {}", "async event", event->to_string());
  }
}

bool attempt(Victim& victim, rdma::Connection& control, const Case& c, lab::Role role, Tell tell) {
  victim.bring_up(c.patience, c.access);
  if (role == lab::Role::server) prepare(victim, c.deed);
  control.barrier();
  if (role == lab::Role::client) {
    const bool done = client_part(victim, c, tell);
    control.send_value(done);
    return done;
  }
  const bool done = control.recv_value<bool>();
  if (done) server_part(victim, c, control.context(), tell);
  return done;
}

/// 1. and 5. Bring it up, break it, bring it back, prove it: the same queue pair all the time.
void run_cases(const lab::Options& options, rdma::Connection& control, lab::Role role) {
  Victim victim{options, control, role};
  lab::Work work;
  std::uint64_t seed = 0;
  for (std::uint64_t round = 0; round < options.iters; ++round) {
    for (const Case& c : kCases) {
      int tries = 1;
      while (!attempt(victim, control, c, role, round == 0)) {
        lab::check(++tries <= kTries, "no {} in {} tries", rdma::explain(c.status).name, kTries);
      }
      victim.bring_up();
      victim.prove(++seed);
    }
  }
  work.done();
}

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);
  rdma::Connection control = lab::accept(options, request);
  run_cases(options, control, lab::Role::server);
  lab::wait_for_goodbye(options, control);
}

void client(const lab::Options& options) {
  rdma::ConnectionOptions wish = lab::within(options);
  wish.offer(lab::terms(options));
  rdma::Connection control = lab::connect(options, wish);
  run_cases(options, control, lab::Role::client);
  const std::uint64_t times = options.iters * std::size(kCases);
  lab::say("{} times broken, {} times brought back: RESET, INIT, RTR, RTS, and a message through",
           times, times);
  lab::say_goodbye(options, control);
  lab::shown("{} ways to fail; one queue pair broken {} times, and brought back each time",
             std::size(kCases), times);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "errors",
                   .idea = "Every common completion status on purpose, and the way back from it",
                   .size = 64,
                   .most = kMost},
                  server, client);
}
