// Lab: registration
//
// Learn: registering memory takes time that grows with its size; so programs register early, keep
//        registrations, or copy what is small. To lend memory and take it back there are memory
//        windows: a key for a part of a region, bound and revoked by a request, without registering
//        anew. After the revocation the same access of the same peer fails.
// Run:   verbena lab registration           both ends on this machine
//        verbena lab registration server | verbena lab registration client HOST
// Try:   --size 1G --iters 100000

#include <array>

#include "labs/common/bootstrap.h"
#include "labs/common/connect.h"
#include "labs/common/pattern.h"
#include "labs/registration/costs.h"

namespace {

using registration::Microseconds;
constexpr std::size_t kLent = 4096;  // bytes, of twice as many that are registered

/// How the key is taken away again.
enum class Revocation { bound_anew, invalidated, invalidated_by_peer };
constexpr std::array kRevocations{Revocation::bound_anew, Revocation::invalidated,
                                  Revocation::invalidated_by_peer};
constexpr std::array kWords{"type 1, bound to nothing", "type 2, invalidated by its owner",
                            "type 2, invalidated by the peer"};
using Type = rdma::MemoryWindow::Type;
Type type_of(Revocation how) { return how == Revocation::bound_anew ? Type::one : Type::two; }

/// What the server tells the client: nothing of length 0 can be lent.
struct Lending {
  rdma::RemoteBuffer memory;
  double bind_us;
};

bool has_windows(const rdma::Context& context, Type type) {
  const unsigned wanted = type == Type::one
                              ? IBV_DEVICE_MEM_WINDOW
                              : IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return (context.limits().device_cap_flags & wanted) != 0;
}

/// The kernel's rxe hands out its own flag, which means IP_CSUM_OK to programs.
bool says_invalidated(const rdma::Completion& done) {
  return done.has_invalidated() || (done.wc_flags & IBV_WC_IP_CSUM_OK) != 0;
}

/// A window on the first half of a region. It is bound through the queue pair whose peer borrows.
struct Loan {
  Loan(rdma::Connection& peer, Type kind)
      : connection{peer},
        memory{peer.pd(), 2 * kLent, rdma::Access::bind_window},
        window{peer.pd(), kind} {}

  std::uint32_t bind_type_1(std::size_t length, rdma::Access access) {
    window.bind(connection.qp(), memory.region(), 0, length, access).check();
    connection.wait().check();
    return window.rkey();  // a fresh one each time
  }
  std::uint32_t bind_type_2(std::size_t length, rdma::Access access) {
    const std::uint32_t key = window.next_rkey();  // ours to choose, in the last 8 bits
    connection.perform(rdma::BindWindow{window, key, memory.region(), 0, length, access}).check();
    return key;
  }

  rdma::Connection& connection;
  rdma::Buffer memory;
  rdma::MemoryWindow window;
};

// 3. Lend, wait until it was used, revoke. The region stays registered all the time.
void lend(const lab::Options& options, rdma::Connection& connection, Revocation how) {
  const Type type = type_of(how);
  if (!has_windows(connection.context(), type)) {
    connection.send_value(Lending{});
    return lab::wait_for_goodbye(options, connection);
  }
  Loan loan{connection, type};
  std::uint32_t key = 0;
  const Microseconds took = registration::fastest(1, [&] {
    key = type == Type::one ? loan.bind_type_1(kLent, rdma::Access::remote_write)
                            : loan.bind_type_2(kLent, rdma::Access::remote_write);
  });
  const auto lent = rdma::MemoryWindow::remote(key, loan.memory.region(), 0, kLent);
  connection.send_value(Lending{lent, took.count()});
  if (how == Revocation::invalidated_by_peer) {
    const rdma::Completion given_back = connection.recv(loan.memory.slice(kLent, kLent));
    lab::check(says_invalidated(given_back) && given_back.invalidated() == key,
               "the peer's SEND didn't take the key {:#x} away", key);
  } else {
    connection.barrier();
    if (type == Type::one) loan.bind_type_1(0, rdma::Access::none);
    if (type == Type::two) connection.perform(rdma::LocalInvalidate{key}).check();
  }
  // The WRITE that follows ends the queue pair, perhaps before the acknowledgement of this message.
  const rdma::Completion told = connection.perform(rdma::Send{});
  lab::check(told.ok() || told.status == IBV_WC_WR_FLUSH_ERR, "telling the client: {}",
             told.message());
  lab::wait_for_goodbye(options, connection);
  lab::check_pattern(loan.memory.bytes().first(kLent), 1, "the memory, after the revocation");
}

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
registration::Cost measure(const lab::Options& options, const rdma::ProtectionDomain& pd) {
  const registration::Pages memory{options.size}, copy{options.size};
  registration::Cost cost{};
  lab::say("{:>11}  {:>12}  {:>12}  {:>12}  {:>10}", "bytes", "register us", "deregister",
           "copy instead", "pinned KiB");
  for (std::size_t size = std::min<std::size_t>(4096, options.size);;) {
    try {
      cost = registration::cost_of(pd, memory.bytes().first(size), copy.bytes().first(size));
    } catch (const rdma::Error& error) {
      if (error.code() != ENOMEM || cost.size == 0) throw;
      lab::say("no more may be pinned: {}", error.what());
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
  const registration::Cost largest = measure(options, pd);
  const auto cache = registration::try_cache(pd, options.iters);
  lab::say(
      "64 buffers used {} times: {:.2f} us each, registered anew; {:.2f} us with a cache of 16, "
      "{:.0f} % hits",
      options.iters, cache.without.count(), cache.with.count(), cache.hit_percent);
  int revoked = 0;
  for (const Revocation how : kRevocations) revoked += borrow(options, how) ? 1 : 0;
  lab::shown("{} bytes registered in {:.0f} us; {:.0f} % cache hits; {} revoked windows refuse",
             largest.size, largest.registered.count(), cache.hit_percent, revoked);
}

}  // namespace

int main(int argc, char** argv) {
  return lab::run(argc, argv,
                  {.name = "registration",
                   .idea = "What registration costs, a cache of it, and memory that is only lent",
                   .size = 64 << 20,
                   .iters = 2000},
                  server, client);
}
