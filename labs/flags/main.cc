// Lab: flags
//
// Learn: what each flag of a send request changes. SIGNALED: whether there is a completion.
//        INLINE: whose the memory is after the post. FENCE: whether a READ before it is awaited.
//        SOLICITED: whether a sleeping receiver wakes.
// Run:   verbena lab flags                  both ends on this machine
//        verbena lab flags server | verbena lab flags client HOST
// Try:   --size 4096 --iters 5000 --stats; --inline 1000000

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/common/terms.h"
#include "labs/flags/one_sided.h"
#include "labs/flags/solicited.h"

namespace {

constexpr std::size_t kMost = std::size_t{1} << 28;
constexpr std::size_t kLeast = 64;       // the fence needs some, whatever --size says
std::uint32_t inline_size = 64;          // asked for; the device may give more
constexpr std::uint64_t kInterval = 16;  // of signalling

void server(const lab::Options& given) {
  rdma::Listener listener = lab::listen(given);
  rdma::ConnectionRequest request = lab::next_request(given, listener);
  const lab::Options options = lab::agree(given, lab::offered<lab::Terms>(request), kMost);

  // 1. Memory for the one-sided flags, where this program does nothing; and for SOLICITED a queue
  //    for receives only, which nobody but the lab arms.
  const rdma::Context context = request.context();
  rdma::ProtectionDomain pd{context};
  const auto access = rdma::Access::remote_write | rdma::Access::remote_read;
  rdma::Buffer memory{pd, std::max(options.size, kLeast), access};
  rdma::CompletionQueue received{context, flags::kReceives};
  rdma::ConnectionOptions answer = lab::within(options);
  answer.pd = &pd;
  answer.recv_cq = &received;
  answer.recv_depth = flags::kReceives;
  answer.offer(memory.remote());
  answer.prepare = [](rdma::Connection& connection) {
    for (int i = 0; i < flags::kReceives; ++i) connection.post(rdma::Recv{}).check();
  };
  rdma::Connection connection = lab::accept(options, request, answer);

  // 6. Arm, sleep, take: for solicited messages only, then for any.
  lab::Work work;
  flags::receive_groups(options, connection, received);
  work.done();
  lab::wait_for_goodbye(options, connection);
}

void client(const lab::Options& options) {
  rdma::ConnectionOptions wish = lab::within(options);
  wish.inline_size = inline_size;
  wish.offer(lab::terms(options));
  rdma::Connection connection = lab::connect(options, wish);
  const flags::Bench bench{options, connection, lab::offered<rdma::RemoteBuffer>(connection)};

  lab::Work work;
  // 2. SIGNALED. A completion for each WRITE, or one for every sixteen: it stands for all before.
  const flags::Stream each = flags::stream(bench, 1), some = flags::stream(bench, kInterval);
  const std::uint64_t needed = (options.iters + kInterval - 1) / kInterval;
  lab::check(each.completions == options.iters && some.completions == needed,
             "{} and {} completions, expected {} and {}", each.completions, some.completions,
             options.iters, needed);
  lab::say("SIGNALED   {} WRITEs of {} bytes, each signalled: {} completions, {:.2f} ms",
           options.iters, options.size, each.completions, each.spent.wall.count() / 1e3);
  lab::say("           one in {} signalled: {} completions, {:.2f} ms, a ratio of {:.2f}",
           kInterval, some.completions, some.spent.wall.count() / 1e3,
           some.spent.wall / each.spent.wall);

  // 3. INLINE. The data are copied while posting: no key, and the memory is free at once.
  const std::size_t room = connection.qp().capabilities().max_inline_data;
  const std::size_t size = std::min(options.size, room);
  lab::check(size > 0, "the device takes no inline data");
  const double registered = flags::write_latency(bench, size, false);
  const double inlined = flags::write_latency(bench, size, true);
  lab::say("INLINE     {} WRITEs of {} bytes from registered memory: {:.1f} µs each", options.iters,
           size, registered);
  lab::say(
      "           from other memory, overwritten right after the post: all arrived as posted, "
      "{:.1f} µs, a ratio of {:.2f}",
      inlined, inlined / registered);

  // 4. FENCE. Without it, a WRITE may take its bytes before the READ in front has brought them.
  const flags::Fencing loose = flags::read_then_write(bench, false);
  const flags::Fencing fenced = flags::read_then_write(bench, true);
  lab::check(fenced.stale == 0, "{} WRITEs overtook the READ in spite of the fence", fenced.stale);
  lab::say("FENCE      {} times READ, then WRITE what it brought: {} carried old bytes, {:.1f} µs",
           loose.rounds, loose.stale, loose.micros);
  lab::say("           with the fence: {} carried old bytes, {:.1f} µs, a ratio of {:.2f}",
           fenced.stale, fenced.micros, fenced.micros / loose.micros);

  // 5. SOLICITED. Groups of eight messages, of which the last is solicited.
  const flags::WakeUps wake_ups = flags::send_groups(connection);
  lab::check(wake_ups.solicited_only == flags::kGroups, "{} wake-ups for {} groups",
             wake_ups.solicited_only, flags::kGroups);
  lab::say(
      "SOLICITED  {} messages in groups of {}: armed for any, {} wake-ups; for solicited ones, {}",
      flags::kGroups * flags::kGroup, flags::kGroup, wake_ups.any, wake_ups.solicited_only);
  work.done();
  lab::say_goodbye(options, connection);
  lab::shown(
      "{} for {} completions; inline memory free at once; stale without fence {}/{}; {} for "
      "{} wake-ups",
      some.completions, each.completions, loose.stale, loose.rounds, wake_ups.solicited_only,
      wake_ups.any);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "flags",
                   .idea = "SIGNALED, INLINE, FENCE, SOLICITED: what each changes, measured",
                   .size = 64,
                   .most = kMost,
                   .iters = 500,
                   .more =
                       [](lab::OwnOptions& own) {
                         own.number("--inline", inline_size, {1, 1u << 20},
                                    "Client: max_inline_data to ask for");
                       }},
                  server, client);
}
