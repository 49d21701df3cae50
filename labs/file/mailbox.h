#pragma once

// Messages of wire.h over a connection, to a peer that may die meanwhile.

#include <algorithm>

#include "labs/common/connect.h"
#include "labs/common/cost.h"
#include "labs/file/wire.h"

class Mailbox {
 public:
  /// Who waits for a message learns nothing of a peer that was killed: nothing comes, as from a
  /// slow one. So it asks from time to time, with a WRITE of no bytes, which the peer's card
  /// acknowledges as long as the peer lives.
  static constexpr std::chrono::milliseconds kAskEvery{500};

  /// A try takes 67 ms or a few times that, so that a dead peer is noticed within seconds.
  [[nodiscard]] static rdma::ConnectionOptions connection_options() {
    rdma::ConnectionOptions options;
    options.ack_timeout = 14;
    return options;
  }

  Mailbox(rdma::Connection& connection, const lab::Options& options)
      : connection_{connection},
        deadline_{options.deadline},
        out_{connection.buffer(wire::kMessageSize)},
        in_{connection.buffer(wire::kMessageSize)} {}

  template <class Message>
  void send(const Message& message) {
    const auto bytes = wire::encode(message);
    std::ranges::copy(bytes, out_.data());
    connection_.send(out_.slice(0, bytes.size()));
  }

  /// Throws wire::Malformed when something else came, lab::Failed when the peer is gone.
  template <class Message>
  [[nodiscard]] Message receive() {
    return wire::decode<Message>(next());
  }
  /// The bytes are good until the next call.
  [[nodiscard]] std::span<const std::byte> next() {
    connection_.post(rdma::Recv{in_}).check();
    while (true) {
      const auto soon = std::chrono::steady_clock::now() + kAskEvery;
      if (const auto done = connection_.wait(std::min(soon, deadline_))) {
        lab::check(done->ok(), "the peer is gone: {}",
                   connection_.connected() ? done->message() : "it hung up");
        ++received_;
        return in_.bytes().first(done->length());
      }
      if (rdma::Deadline{deadline_}.passed()) give_up<lab::Late>("a message from the peer");
      const auto asked = connection_.perform(rdma::Write{rdma::RemoteBuffer{}});
      if (asked.ok()) continue;
      give_up<lab::Failed>(
          fmt::format("the peer is dead or out of reach: {}", rdma::explain(asked.status).name));
    }
  }

  /// Messages so far: each was waited for.
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  /// The receive is still posted: it has to end before its memory goes.
  template <class Failure>
  [[noreturn]] void give_up(const std::string& why) {
    connection_.qp().to_error();
    static_cast<void>(connection_.wait(std::chrono::seconds{1}));
    throw Failure{why};
  }

  rdma::Connection& connection_;
  std::chrono::steady_clock::time_point deadline_;
  rdma::Buffer out_, in_;
  std::uint64_t received_ = 0;
};
