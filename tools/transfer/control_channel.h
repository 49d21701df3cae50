#pragma once

// The messages of a transfer over their own queue pair. Nothing here blocks but wait(): a peer that
// is busy can't hold up the pings that tell it that we live.

#include <poll.h>

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "rdma++/connection.h"
#include "rdma++/listener.h"
#include "tools/transfer/messages.h"

namespace verbena::transfer {

/// The connection is gone, or the peer is silent.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What all queue pairs of a transfer have in common.
[[nodiscard]] rdma::ConnectionOptions connection_options(std::chrono::milliseconds idle);

class ControlChannel {
 public:
  /// Throws rdma::Error.
  [[nodiscard]] static ControlChannel connect(const rdma::SocketAddress& to,
                                              rdma::ConnectionOptions options);
  [[nodiscard]] static ControlChannel accept(rdma::ConnectionRequest& request,
                                             rdma::ConnectionOptions options);

  template <class Message>
  void send(const Message& message) {
    send_encoded(encode(message));
  }
  void send_encoded(std::vector<std::byte> message) {
    outbox_.push_back(std::move(message));
    pump();
  }
  /// True if next() has a message. Throws Broken as next() does.
  [[nodiscard]] bool has_next() {
    if (inbox_.empty()) take_completions();
    return !inbox_.empty();
  }
  /// The next message; nullopt: none is there. Throws Broken when the peer is gone.
  [[nodiscard]] std::optional<std::vector<std::byte>> next();
  /// Until there is a message, `others` has something, or the time has come.
  void wait(std::span<pollfd> others, rdma::Deadline until);
  /// Until a message of this type comes. Pings are passed over; what() of an abort is thrown.
  template <class Message>
  [[nodiscard]] Message expect(rdma::Deadline until) {
    return decode<Message>(next_of_set_up(until));
  }

  /// Pings if we were silent; throws Broken if the peer has been silent for `idle`.
  void keep_alive(std::chrono::milliseconds idle);
  /// Until everything is sent, or the time is over, or the peer is gone.
  void flush(rdma::Deadline until) noexcept;

  [[nodiscard]] rdma::Connection& connection() { return connection_; }

 private:
  static constexpr std::size_t kReceives = 32, kSends = 16;
  using Clock = std::chrono::steady_clock;

  explicit ControlChannel(rdma::Connection connection, rdma::Buffer in);
  static void add_receives(rdma::ConnectionOptions& options, std::optional<rdma::Buffer>& in);
  static void post_receive(rdma::Connection& connection, const rdma::Buffer& in, std::size_t slot);
  void pump();
  void take_completions();
  void take(const rdma::Completion& done);
  [[nodiscard]] std::vector<std::byte> next_of_set_up(rdma::Deadline until);

  rdma::Buffer in_, out_;  // the queue pair goes first
  rdma::Connection connection_;
  std::deque<std::vector<std::byte>> inbox_, outbox_;
  std::vector<std::size_t> free_sends_;
  Clock::time_point heard_at_ = Clock::now(), sent_at_ = Clock::now();
};

}  // namespace verbena::transfer
