// Lab: imm
//
// Learn: a WRITE tells the target nothing; a WRITE with immediate data does. It consumes a receive
//        there, whose completion carries 32 bits of the sender's choice, in network order on the
//        wire and in ibv_wc. The receive needs no buffer: the data go where the WRITE says.
// Run:   verbena lab imm                    both ends on this machine
//        verbena lab imm server | verbena lab imm client HOST
// Try:   --size 1M --iters 50 --pcap imm.pcapng; --without receive

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/pattern.h"
#include "labs/common/rounds.h"
#include "labs/common/terms.h"

namespace {

constexpr std::uint64_t kSlots = 4;  // messages in flight, receives posted
constexpr std::size_t kMost = std::size_t{1} << 28;
constexpr std::uint32_t kFirst = 0x0102'0304;  // its four bytes show their order
bool repost = true;                            // the receive of step 5

std::uint32_t imm_of(std::uint64_t message) { return kFirst + static_cast<std::uint32_t>(message); }

void post_empty_receive(rdma::Connection& connection, std::uint64_t id) {
  connection.post(rdma::Recv{}.id(id)).check();
}

/// The next notification: receive `id`, consumed by a WRITE of `length` bytes with that imm.
rdma::Completion take(rdma::Connection& connection, std::uint64_t id, std::size_t length) {
  const rdma::Completion done = connection.wait().check();
  lab::check(done.opcode == IBV_WC_RECV_RDMA_WITH_IMM && done.has_imm(),
             "got opcode {} instead of RECV_RDMA_WITH_IMM", int{done.opcode});
  lab::check(done.id() == id, "receive {} was consumed instead of {}", done.id(), id);
  lab::check(done.imm() == imm_of(id), "got imm {:#x} instead of {:#x}", done.imm(), imm_of(id));
  lab::check(done.length() == length, "got {} bytes instead of {}", done.length(), length);
  return done;
}

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);

  // 1. Room for the data, and receives without any: a notification takes one, and that is all.
  rdma::ProtectionDomain pd{request.context()};
  rdma::Buffer memory{pd, kSlots * options.size, rdma::Access::remote_write};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.offer(memory.remote());
  answer.prepare = [](rdma::Connection& connection) {
    for (std::uint64_t id = 0; id < kSlots; ++id) post_empty_receive(connection, id);
  };
  rdma::Connection connection = lab::accept(options, request, answer);

  lab::Work work;
  for (std::uint64_t message = 0; message < options.iters; ++message) {
    // 4. Message 0 consumes receive 0, although a plain WRITE came before it: that took none.
    const rdma::Completion done = take(connection, message, options.size);
    if (message == 0) {
      const auto* const raw = reinterpret_cast<const unsigned char*>(&done.imm_data);
      lab::check(raw[0] == 1 && raw[1] == 2 && raw[2] == 3 && raw[3] == 4,
                 "imm_data isn't in network order: {:#x}", done.imm_data);
      lab::say(
          "receive 0 consumed: RECV_RDMA_WITH_IMM, {} bytes, imm_data {:02x} {:02x} {:02x} "
          "{:02x} in memory, {:#x} after ntohl",
          done.length(), raw[0], raw[1], raw[2], raw[3], done.imm());
    }
    const auto slot = memory.bytes().subspan(message % kSlots * options.size, options.size);
    const std::size_t same = lab::first_difference(slot, message);
    lab::check(same == slot.size(), "message {}: byte {} is wrong", message, same);

    // 5. A new receive, then the credit: an empty WRITE with immediate data. It touches no memory,
    //    so it needs neither address nor key.
    if (repost) post_empty_receive(connection, message + kSlots);
    connection.perform(rdma::Write{rdma::RemoteBuffer{}}.imm(imm_of(message))).check();
  }
  work.done({.needed = options.iters});
  lab::say("{} notifications, each found its bytes in place", options.iters);
  lab::wait_for_goodbye(options, connection);
}

void client(const lab::Options& options) {
  // 2. Receives for the credits. They're posted before the server can send any.
  rdma::ConnectionOptions wish = lab::within(options);
  wish.offer(lab::terms(options));
  wish.prepare = [](rdma::Connection& connection) {
    for (std::uint64_t id = 0; id < kSlots; ++id) post_empty_receive(connection, id);
  };
  rdma::Connection connection = lab::connect(options, wish);
  const auto remote = lab::offered<rdma::RemoteBuffer>(connection);
  rdma::Buffer out = connection.buffer(kSlots * options.size);
  const auto slot = [&](std::uint64_t message) { return message % kSlots * options.size; };

  // 3. A plain WRITE: nobody at the server learns of it.
  lab::Work work;
  connection.write(out.slice(0, options.size), remote.slice(0, options.size));
  lab::say("one plain WRITE: nothing tells the server");

  for (const std::uint64_t message : lab::rounds(options.iters)) {
    // 6. A receive at the server is no permission to write: of a long message all packets but the
    //    last land without one. The slot is free when its credit has come.
    if (message >= kSlots) {
      take(connection, message - kSlots, 0);
      post_empty_receive(connection, message);
    }
    lab::fill_pattern(out.bytes().subspan(slot(message), options.size), message);
    connection
        .perform(rdma::Write{out.slice(slot(message), options.size),
                             remote.slice(slot(message), options.size)}
                     .imm(imm_of(message)))
        .check();
  }
  for (std::uint64_t left = std::min(kSlots, options.iters); left > 0; --left) {
    take(connection, options.iters - left, 0);
  }
  work.done({.round_trips = options.iters + 1, .needed = options.iters});
  lab::say_goodbye(options, connection);
  lab::shown("{} WRITEs with immediate data, {} receives without a buffer, {} credits back",
             options.iters, options.iters, options.iters);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(
      argc, argv,
      {.name = "imm",
       .idea = "WRITE_WITH_IMM: a notification consumes a receive; 32 bits in network order",
       .most = kMost,
       .iters = 200,
       .more =
           [](lab::OwnOptions& own) {
             own.choice("--without", repost, {{"receive", false}},
                        "Server: what step 5 leaves out");
           }},
      server, client);
}
