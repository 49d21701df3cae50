// Lab: registration
//
// Learn: registering memory takes time that grows with its size; so programs register early, keep
//        registrations, or copy what is small. To lend memory and take it back there are memory
//        windows: a key for a part of a region, bound and revoked by a request, without registering
//        anew. After the revocation the same access of the same peer fails.
// Run:   verbena lab registration           both ends on this machine
//        verbena lab registration server | verbena lab registration client HOST
// Try:   --size 1G --iters 100000; --cache 4; --even

#include "labs/common/bootstrap.h"
#include "labs/registration/lending.h"

using namespace registration;

namespace {

CacheSettings cache_settings;

void server(const lab::Options& options) {
  rdma::Listener listener = lab::listen(options);
  for (const Revocation how : kRevocations) {
    rdma::ConnectionRequest request = lab::next_request(options, listener);
    rdma::Connection connection = lab::accept(options, request);
    lend(options, connection, how);
  }
}

// 4. The key works, until it is revoked; then the same WRITE fails, and with it the queue pair.
bool borrow(const lab::Options& options, Revocation how) {
  const char* const words = kWords.at(static_cast<std::size_t>(how));
  rdma::ConnectionOptions wanted;
  wanted.ack_timeout = 16;  // 0.27 s
  rdma::Connection connection = lab::connect(options, wanted);
  const auto lent = connection.recv_value<Lending>();
  if (lent.memory.length == 0) {
    lab::say("the server's device has no window of {}", words);
    lab::say_goodbye(options, connection);
    return false;
  }
  rdma::Buffer data = connection.buffer(kLent);
  lab::fill_pattern(data.bytes(), 1);
  connection.write(data, lent.memory);
  if (how == Revocation::invalidated_by_peer) {
    connection.perform(rdma::Send{}.invalidate(lent.memory.rkey)).check();
  } else {
    connection.barrier();
  }
  connection.recv(data);  // empty: it is revoked
  lab::fill_pattern(data.bytes(), 2);
  const rdma::Completion refused = connection.perform(rdma::Write{data, lent.memory});
  // The refusal is one packet, and the queue pair that sent it is in the error state: if it gets
  // lost nobody repeats it. That the memory is as it was, the server checks.
  const bool unheard = refused.status == IBV_WC_RETRY_EXC_ERR;
  lab::check(unheard || refused.status == IBV_WC_REM_ACCESS_ERR, "after the revocation: {}",
             refused.message());
  lab::say("window of {}: bound in {:.1f} us, written to, revoked; then {}", words, lent.bind_us,
           rdma::explain(refused.status).name);
  lab::say_goodbye(options, connection);
  return true;
}

// 1. What a registration costs. 2. What keeping them saves.
Cost measure(const lab::Options& options, const rdma::ProtectionDomain& pd) {
  const Pages memory{options.size}, copy{options.size};
  Cost cost{};
  lab::say("{:>11}  {:>12}  {:>12}  {:>12}  {:>10}", "bytes", "register us", "deregister",
           "copy instead", "pinned KiB");
  for (std::size_t size = std::min<std::size_t>(4096, options.size);;) {
    try {
      cost = cost_of(pd, memory.bytes().first(size), copy.bytes().first(size));
    } catch (const rdma::Error& error) {
      if (error.code() != ENOMEM || cost.size == 0) throw;
      lab::say("the system lets no more memory be pinned: {}", error.what());
      return cost;
    }
    lab::say("{:>11}  {:>12.1f}  {:>12.1f}  {:>12.1f}  {:>10}", size, cost.registered.count(),
             cost.released.count(), cost.copied.count(), cost.pinned_kib);
    if (size == options.size) return cost;
    size = std::min(16 * size, options.size);
  }
}

void client(const lab::Options& options) {
  lab::check_memory(2 * options.size);
  const rdma::Context context{rdma::choose_device(options.device, options.host)};
  const rdma::ProtectionDomain pd{context};
  const Cost largest = measure(options, pd);
  const auto cache = try_cache(pd, options.iters, cache_settings);
  lab::say(
      "64 buffers used {} times: {:.2f} us each, registered anew; {:.2f} us with a cache of {}, "
      "{:.0f} % hits",
      options.iters, cache.without.count(), cache.with.count(), cache_settings.room,
      cache.hit_percent);
  int revoked = 0;
  for (const Revocation how : kRevocations) revoked += borrow(options, how) ? 1 : 0;
  lab::shown(
      "{} bytes registered in {:.0f} us; {:.0f} % cache hits; {} revoked windows refuse a WRITE",
      largest.size, largest.registered.count(), cache.hit_percent, revoked);
}

void add_options(lab::OwnOptions& own) {
  own.number("--cache", cache_settings.room, {1, 64}, "Client: registrations that the cache keeps");
  own.flag("--even", cache_settings.even, "Client: use each of the 64 buffers equally often");
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "registration",
                   .idea = "What registration costs, a cache of it, and memory that is only lent",
                   .size = 64 << 20,
                   .iters = 2000,
                   .more = add_options},
                  server, client);
}
