#pragma once

// Memory that is lent by a window, and taken back: step 3.

#include <array>

#include "labs/common/connect.h"
#include "labs/common/pattern.h"
#include "labs/registration/costs.h"

namespace registration {

constexpr std::size_t kLent = 4096;  // bytes, of twice as many that are registered

/// How the key is taken away again.
enum class Revocation { bound_anew, invalidated, invalidated_by_peer };
constexpr std::array kRevocations{Revocation::bound_anew, Revocation::invalidated,
                                  Revocation::invalidated_by_peer};
constexpr std::array kWords{"type 1, bound to nothing", "type 2, invalidated by its owner",
                            "type 2, invalidated by the peer"};
using Type = rdma::MemoryWindow::Type;
inline Type type_of(Revocation how) {
  return how == Revocation::bound_anew ? Type::one : Type::two;
}

/// What the server tells the client: nothing of length 0 can be lent.
struct Lending {
  rdma::RemoteBuffer memory;
  double bind_us;
};

inline bool has_windows(const rdma::Context& context, Type type) {
  const unsigned wanted = type == Type::one
                              ? IBV_DEVICE_MEM_WINDOW
                              : IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return (context.limits().device_cap_flags & wanted) != 0;
}

/// The kernel's rxe hands out its own flag, which means IP_CSUM_OK to programs.
inline bool says_invalidated(const rdma::Completion& done) {
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

/// 3. Lend, wait until it was used, revoke. The region stays registered all the time.
inline void lend(const lab::Options& options, rdma::Connection& connection, Revocation how) {
  const Type type = type_of(how);
  if (!has_windows(connection.context(), type)) {
    connection.send_value(Lending{});
    return lab::wait_for_goodbye(options, connection);
  }
  Loan loan{connection, type};
  std::uint32_t key = 0;
  const Microseconds took = fastest(1, [&] {
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
  lab::check(told.ok() || told.status == IBV_WC_WR_FLUSH_ERR, "the message to the client: {}",
             told.message());
  lab::wait_for_goodbye(options, connection);
  lab::check_pattern(loan.memory.bytes().first(kLent), 1, "the memory, after the revocation");
}

}  // namespace registration
