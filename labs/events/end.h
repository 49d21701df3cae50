#pragma once

// What both ends of this lab do alike: send, and wait in either way.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "labs/common/pattern.h"
#include "labs/common/terms.h"
#include "labs/events/waiting.h"

namespace events {

/// With the connection request.
struct Request {
  lab::Terms terms;
  std::uint64_t flag;  // 8 bytes at the client
  std::uint32_t rkey;
  std::uint32_t reserved = 0;
};

constexpr std::uint64_t kSignalInterval = 32;
constexpr std::uint32_t kDepth = 64;

/// One end: receives complete on a queue of their own, which nobody but the lab arms.
struct End {
  const lab::Options& options;
  rdma::ProtectionDomain pd;
  rdma::CompletionQueue received{pd.context(), kDepth};
  rdma::Buffer out{pd, options.size}, in{pd, options.size};
  std::optional<rdma::Connection> connection{};
  std::uint64_t sent = 0, taken = 0;
  Counts counts{};

  rdma::ConnectionOptions wishes() {
    lab::fill_pattern(out.bytes(), 0);
    rdma::ConnectionOptions wish = lab::within(options);
    wish.pd = &pd;
    wish.recv_cq = &received;
    wish.send_depth = wish.recv_depth = kDepth;
    wish.prepare = [this](rdma::Connection& c) { c.post(rdma::Recv{in}).check(); };
    return wish;
  }
  /// Rarely signalled: that the peer answers says enough.
  void send() {
    if (++sent % kSignalInterval != 0) return connection->post(rdma::Send{out}).check();
    connection->perform(rdma::Send{out}).check();
  }
  /// What came must be a message; the next receive is posted before anybody is answered.
  void take(const rdma::Completion& done) {
    lab::check(done.is_receive() && done.length() == options.size, "{} bytes came", done.length());
    const std::size_t same = lab::first_difference(in.bytes(), 0);
    lab::check(same == options.size, "message {}: byte {} is wrong", taken, same);
    std::ranges::fill(in.bytes(), std::byte{0});
    connection->post(rdma::Recv{in}).check();
    ++taken;
  }
  void wait_polling() { take(by_polling(options, received)); }
  void wait_sleeping() { take(by_event(options, *connection, received, counts)); }
};

}  // namespace events
