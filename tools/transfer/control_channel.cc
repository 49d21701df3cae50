#include "tools/transfer/control_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/transfer/names.h"

namespace verbena::transfer {
namespace {

constexpr std::uint64_t kSendId = 1 << 16;  // receives have smaller ids

}  // namespace

rdma::ConnectionOptions connection_options(std::chrono::milliseconds idle) {
  rdma::ConnectionOptions options;
  options.access = rdma::Access::none;
  options.timeout = std::min<std::chrono::milliseconds>(idle, std::chrono::seconds{10});
  // 1.1 s a try: the retries outlast a link that is down for some seconds.
  options.ack_timeout = 18;
  return options;
}

ControlChannel::ControlChannel(rdma::Connection connection, rdma::Buffer in)
    : in_{std::move(in)},
      out_{connection.buffer(kSends * kMessageSize)},
      connection_{std::move(connection)} {
  for (std::size_t slot = 0; slot < kSends; ++slot) free_sends_.push_back(slot);
}

void ControlChannel::post_receive(rdma::Connection& connection, const rdma::Buffer& in,
                                  std::size_t slot) {
  connection.post(rdma::Recv{in.slice(slot * kMessageSize, kMessageSize)}.id(slot)).check();
}

void ControlChannel::add_receives(rdma::ConnectionOptions& options,
                                  std::optional<rdma::Buffer>& in) {
  options.send_depth = kSends;
  options.recv_depth = kReceives;
  options.prepare = [&in](rdma::Connection& connection) {
    in.emplace(connection.buffer(kReceives * kMessageSize));
    for (std::size_t slot = 0; slot < kReceives; ++slot) post_receive(connection, *in, slot);
  };
}

ControlChannel ControlChannel::connect(const rdma::SocketAddress& to,
                                       rdma::ConnectionOptions options) {
  std::optional<rdma::Buffer> in;
  add_receives(options, in);
  options.private_data = encode_fixed(QueuePairRequest{.index = QueuePairRequest::kControl});
  rdma::Connection connection = rdma::Connection::connect(to, options);
  return ControlChannel{std::move(connection), std::move(*in)};
}

ControlChannel ControlChannel::accept(rdma::ConnectionRequest& request,
                                      rdma::ConnectionOptions options) {
  std::optional<rdma::Buffer> in;
  add_receives(options, in);
  rdma::Connection connection = request.accept(options);
  return ControlChannel{std::move(connection), std::move(*in)};
}

void ControlChannel::pump() {
  while (!outbox_.empty() && !free_sends_.empty()) {
    const std::size_t slot = free_sends_.back();
    const auto& message = outbox_.front();
    std::ranges::copy(message, out_.data() + slot * kMessageSize);
    connection_
        .post(rdma::Send{out_.slice(slot * kMessageSize, message.size())}
                  .id(kSendId + slot)
                  .signaled())
        .check();
    free_sends_.pop_back();
    outbox_.pop_front();
    sent_at_ = Clock::now();
  }
}

void ControlChannel::take(const rdma::Completion& done) {
  if (!done.ok()) {
    connection_.check_peer();
    throw Broken{connection_.connected() ? fmt::format("the peer is dead or out of reach ({})",
                                                       rdma::explain(done.status).name)
                                         : "the peer hung up"};
  }
  if (done.id() >= kSendId) {
    free_sends_.push_back(static_cast<std::size_t>(done.id() - kSendId));
    return;
  }
  const auto slot = static_cast<std::size_t>(done.id());
  const auto bytes = in_.bytes().subspan(slot * kMessageSize, done.length());
  inbox_.emplace_back(bytes.begin(), bytes.end());
  post_receive(connection_, in_, slot);
  heard_at_ = Clock::now();
}

void ControlChannel::take_completions() {
  std::array<rdma::Completion, 16> room;
  while (true) {
    const auto done = connection_.cq().poll(room);
    if (done.empty()) break;
    for (const rdma::Completion& one : done) take(one);
  }
  pump();
}

std::optional<std::vector<std::byte>> ControlChannel::next() {
  if (inbox_.empty()) take_completions();
  if (inbox_.empty()) {
    // What the peer said before it left is in the inbox by now.
    if (!connection_.connected()) {
      take_completions();
      if (inbox_.empty()) throw Broken{"the peer hung up"};
    } else {
      return std::nullopt;
    }
  }
  auto message = std::move(inbox_.front());
  inbox_.pop_front();
  return message;
}

void ControlChannel::wait(std::span<pollfd> others, rdma::Deadline until) {
  rdma::CompletionQueue& cq = connection_.cq();
  if (!cq.armed()) cq.arm();
  take_completions();  // what completed before it was armed makes no event
  if (!inbox_.empty()) until = rdma::Deadline{std::chrono::seconds{0}};
  std::vector<pollfd> waiting{{.fd = cq.fd(), .events = POLLIN, .revents = 0},
                              {.fd = connection_.event_fd(), .events = POLLIN, .revents = 0}};
  waiting.insert(waiting.end(), others.begin(), others.end());
  if (::poll(waiting.data(), waiting.size(), until.poll_timeout()) < 0) {
    if (errno != EINTR) throw rdma::Error{"poll", "a control connection", errno};
    return;
  }
  if (waiting[0].revents != 0) cq.take_event();
  std::copy(waiting.begin() + 2, waiting.end(), others.begin());
}

std::vector<std::byte> ControlChannel::next_of_set_up(rdma::Deadline until) {
  while (true) {
    if (auto message = next()) {
      const MessageType type = type_of(*message);
      if (type == MessageType::abort) throw Broken{printable(decode<Abort>(*message).text)};
      if (type != MessageType::ping) return std::move(*message);
      continue;
    }
    if (until.passed()) throw Broken{"the peer doesn't answer"};
    wait({}, until);
  }
}

void ControlChannel::keep_alive(std::chrono::milliseconds idle) {
  const auto now = Clock::now();
  if (now - heard_at_ > idle) {
    throw Broken{fmt::format("nothing came from the peer for {:.0f} s",
                             std::chrono::duration<double>(idle).count())};
  }
  if (now - sent_at_ > idle / 4 && outbox_.empty()) send(Ping{});
}

void ControlChannel::flush(rdma::Deadline until) noexcept {
  try {
    while ((!outbox_.empty() || free_sends_.size() < kSends) && !until.passed() &&
           connection_.connected()) {
      wait({}, until);
    }
  } catch (const std::exception&) {  // the peer is gone: nobody is there to read it
  }
}

}  // namespace verbena::transfer
