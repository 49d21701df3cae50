// Lab: write-read
//
// Learn: WRITE and READ are one-sided. They complete at the client only, in the order of posting;
//        one completion tells of every request before it; a READ finds what the WRITEs before it
//        wrote. The server's program sleeps through all of it.
// Run:   verbena lab write-read             both ends on this machine
//        verbena lab write-read server | verbena lab write-read client HOST
// Try:   --size 1M --iters 20 --drop 1% --stats; --without signaled

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/common/spent.h"
#include "labs/common/terms.h"

namespace {

constexpr std::size_t kMost = std::size_t{1} << 30;
using Flag = std::uint64_t;  // lies behind the payload, says which round the payload is of
bool signaled = true;        // the READ of step 4

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);

  // 1. Expose a payload and a flag behind it. No receive is posted, now or later.
  rdma::ProtectionDomain pd{request.context()};
  const auto access = rdma::Access::remote_write | rdma::Access::remote_read;
  rdma::Buffer memory{pd, options.size + sizeof(Flag), access};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.offer(memory.remote());
  rdma::Connection connection = lab::accept(options, request, answer);

  // 5. Sleep until the client says goodbye, and see what that took.
  lab::Work work;
  const lab::Spent process_before = lab::spent_by_process();
  lab::wait_for_goodbye(options, connection);
  const lab::Spent mine = work.done().spent;
  const lab::Spent all = lab::spent_by_process() - process_before;
  lab::check(!connection.cq().poll(), "got a completion, although no receive was posted");
  const auto payload = memory.bytes().first(options.size);
  const std::size_t same = lab::first_difference(payload, options.iters);
  lab::check(same == payload.size(), "byte {} of {} isn't the last round's", same, payload.size());
  const std::uint64_t requests = 2 + 3 * options.iters;
  lab::say(
      "the device served {} requests here in {:.1f} ms; this thread: {:.2f} ms CPU, {} wake-ups",
      requests, mine.wall.count() / 1e3, mine.cpu.count() / 1e3, mine.wake_ups);
  lab::say("the process's other threads: {:.2f} ms CPU (the device, where it is software)",
           std::max(0.0, (all.cpu - mine.cpu).count() / 1e3));
  lab::check(mine.wake_ups <= 16, "the target woke up {} times; only the goodbye should wake it",
             mine.wake_ups);
  lab::shown(
      "{} one-sided requests in order; the target: 0 completions, {} wake-ups, {:.2f} ms CPU",
      requests, mine.wake_ups, mine.cpu.count() / 1e3);
}

/// The next completion, which must be this one.
void expect(rdma::Connection& connection, std::uint64_t id, ibv_wc_opcode opcode) {
  const rdma::Completion done = connection.wait().check();
  lab::check(done.id() == id && done.opcode == opcode,
             "expected completion {} with opcode {}, got {} with opcode {}", id, int{opcode},
             done.id(), int{done.opcode});
}

void client(const lab::Options& options) {
  rdma::ConnectionOptions wish = lab::within(options);
  wish.offer(lab::terms(options));
  rdma::Connection connection = lab::connect(options, wish);
  const auto remote = lab::offered<rdma::RemoteBuffer>(connection);
  const std::size_t size = options.size;
  rdma::Buffer out = connection.buffer(size + sizeof(Flag));
  rdma::Buffer in = connection.buffer(size + sizeof(Flag));

  lab::Work work;
  // 2. One WRITE. Its completion means that the server's device has acknowledged it: the bytes are
  //    there, and this buffer is ours again. Before it, neither is true.
  lab::fill_pattern(out.bytes().first(size), 0);
  connection.post(rdma::Write{out.slice(0, size), remote.slice(0, size)}.id(1).signaled()).check();
  expect(connection, 1, IBV_WC_RDMA_WRITE);
  lab::say("WRITE of {} bytes: one completion here, opcode RDMA_WRITE, id 1", size);

  // 3. One READ. Its completion means that the bytes are here.
  connection.post(rdma::Read{in.slice(0, size), remote.slice(0, size)}.id(2).signaled()).check();
  expect(connection, 2, IBV_WC_RDMA_READ);
  lab::check(lab::first_difference(in.bytes().first(size), 0) == size, "READ found other bytes");
  lab::say("READ of {} bytes: one completion here, opcode RDMA_READ, id 2", size);

  // 4. Three requests in one post. Only the READ is signalled: requests of one queue complete in
  //    order, so its completion tells of the WRITEs, too, and it must have found both of them.
  const auto start = lab::spent_by_process();
  for (const std::uint64_t done : lab::rounds(options.iters)) {
    const Flag round = done + 1;
    lab::fill_pattern(out.bytes().first(size), round);
    std::memcpy(out.data() + size, &round, sizeof round);
    rdma::Read read{in, remote};
    read.id(2 + round);
    if (signaled) read.signaled();
    connection.qp()
        .post(rdma::Write{out.slice(0, size), remote.slice(0, size)},
              rdma::Write{out.slice(size, sizeof round), remote.slice(size, sizeof round)}, read)
        .check();
    expect(connection, 2 + round, IBV_WC_RDMA_READ);
    Flag found = 0;
    std::memcpy(&found, in.data() + size, sizeof found);
    lab::check(found == round, "the READ of round {} overtook its WRITE: flag {}", round, found);
    const std::size_t same = lab::first_difference(in.bytes().first(size), round);
    lab::check(same == size, "round {}: byte {} is of another round", round, same);
  }
  const auto took = lab::spent_by_process() - start;
  const std::uint64_t waits = 2 + options.iters;
  work.done({.round_trips = waits, .needed = waits});
  lab::say(
      "{} times WRITE, WRITE, READ: {} completions, each READ found both WRITEs; {:.1f} µs each",
      options.iters, options.iters, took.wall.count() / static_cast<double>(options.iters));
  lab::say_goodbye(options, connection);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "write-read",
       .idea = "One-sided WRITE and READ: their order, their completions, an idle target",
       .most = kMost,
       .iters = 1000,
       .more =
           [](lab::OwnOptions& own) {
             own.choice("--without", signaled, {{"signaled", false}},
                        "Client: how step 4 posts its READ");
           }},
      server, client);
}
