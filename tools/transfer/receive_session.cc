#include "tools/transfer/receive_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>

#include "tools/transfer/control_channel.h"
#include "tools/transfer/interrupts.h"
#include "tools/transfer/mailbox.h"
#include "tools/transfer/names.h"
#include "tools/transfer/progress.h"
#include "tools/transfer/question.h"
#include "tools/transfer/receive_worker.h"

namespace verbena::transfer {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{200};
constexpr std::uint32_t kMostChunk = 512 << 10;
constexpr std::uint32_t kMostSlots = 256;  // of a queue pair

struct Interrupted {};

/// Not let in.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Slots slots_for(const SessionSettings& settings) {
  const std::uint64_t each = settings.window / settings.queue_pairs;
  const std::uint64_t wanted = std::clamp<std::uint64_t>(each / 4, 4096, kMostChunk);
  const auto chunk = static_cast<std::uint32_t>(wanted / 4096 * 4096);
  const std::uint64_t count = std::clamp<std::uint64_t>(each / chunk, 1, kMostSlots);
  return {static_cast<std::uint32_t>(count), chunk};
}

class Session {
 public:
  Session(rdma::ConnectionRequest& request, const SessionContext& context)
      : context_{context},
        idle_{static_cast<std::int64_t>(context.settings.common.timeout * 1000)},
        slots_{slots_for(context.settings)},
        progress_{tally_, "received", context.settings.common.json},
        control_{ControlChannel::accept(request, connection_options(idle_))} {}

  void authenticate();
  int run();
  void refuse(const std::string& why) {
    control_.send(Abort{why});
    control_.flush(rdma::Deadline{milliseconds{500}});
    progress_.complain(fmt::format("verbena receive: refused {}: {}",
                                   control_.connection().peer().to_string(), why));
  }

 private:
  void check_proof(const Secret& secret, Trust trust, rdma::Deadline until);
  void accept_queue_pairs();
  void converse();
  void look_after();
  void turn_away();
  void take(std::vector<std::byte> message);

  const SessionContext& context_;
  milliseconds idle_;
  Slots slots_;
  Tally tally_;
  Progress progress_;
  ControlChannel control_;
  Nonces nonces_;
  Secret secret_;
  std::optional<Ticket> ticket_;
  Mailbox<std::vector<std::byte>> replies_;
  Mailbox<std::string> broken_;
  Question question_;
  std::optional<Placement> placement_;
  std::vector<std::unique_ptr<ReceiveWorker>> workers_;
  bool goodbye_ = false;
  std::optional<rdma::Deadline> orphaned_;  // the sender's process has ended
};

void Session::authenticate() {
  const rdma::Deadline until{std::min<milliseconds>(idle_, std::chrono::seconds{5})};
  // A sender that was here before the door asks for its ticket now.
  while (!control_.has_next() && !until.passed() && control_.connection().connected()) {
    std::array door{pollfd{.fd = context_.door.fd(), .events = POLLIN, .revents = 0}};
    control_.wait(door, until);
    if (door[0].revents != 0) context_.door.answer();
  }
  const auto hello = control_.expect<Hello>(until);
  nonces_ = {.sender = hello.nonce, .receiver = random_bytes()};
  ticket_ = context_.door.take(hello.ticket);
  if (ticket_) return check_proof(ticket_->secret, Trust::same_user, until);
  if (!context_.key) {
    throw Refused{
        "this receiver takes files of its own user's processes on its host; give both ends the "
        "same --key-file"};
  }
  if (hello.key == 0) throw Refused{"the receiver has a --key-file, the sender has none"};
  check_proof(*context_.key, Trust::key, until);
}

void Session::check_proof(const Secret& secret, Trust trust, rdma::Deadline until) {
  secret_ = secret;
  control_.send(Challenge{.nonce = nonces_.receiver,
                          .trust = static_cast<std::uint8_t>(trust),
                          .proof = prove(secret, kReceiverProof, nonces_)});
  const auto proof = control_.expect<Proof>(until);
  if (!same(proof.proof, prove(secret, kSenderProof, nonces_))) {
    throw Refused{"the sender has another key: compare both files of --key-file"};
  }
}

void Session::accept_queue_pairs() {
  const unsigned count = context_.settings.queue_pairs;
  const ChunkSink sink{.find = [this](std::uint64_t id) { return placement_->find(id); },
                       .failed = [this](std::uint64_t id,
                                        const std::exception& why) { placement_->failed(id, why); },
                       .broken = [this](const std::string& why) { broken_.push(why); }};
  const rdma::Deadline until{idle_};
  workers_.resize(count);
  for (unsigned accepted = 0; accepted < count;) {
    if (interrupted()) throw Interrupted{};
    auto request = context_.listener.next(std::min(until, rdma::Deadline{kLook}));
    if (!request) {
      if (until.passed()) throw Broken{"the sender didn't connect its queue pairs"};
      if (const auto message = control_.next()) take(*message);
      continue;
    }
    QueuePairRequest asked;
    try {
      asked = decode_fixed<QueuePairRequest>(request->private_data());
    } catch (const Malformed&) {
      asked.index = QueuePairRequest::kControl;
    }
    if (asked.index >= count || workers_[asked.index] != nullptr ||
        !same(asked.proof, prove(secret_, kQueuePairProof, nonces_, asked.index))) {
      request->reject(rejection("it serves another sender; try again later"));
      continue;
    }
    workers_[asked.index] =
        std::make_unique<ReceiveWorker>(*request, connection_options(idle_), slots_, sink, tally_);
    ++accepted;
  }
}

int Session::run() {
  std::string ended;
  int status = 1;
  const std::string peer = control_.connection().peer().to_string();
  progress_.say(fmt::format("{} sends; not encrypted", peer));
  placement_.emplace(
      context_.folder,
      PlacementSettings{.overwrite = context_.settings.overwrite,
                        .sync = context_.settings.sync,
                        .chunk_size = slots_.chunk_size},
      tally_,
      Placement::Outside{
          .send = [this](std::vector<std::byte> message) { replies_.push(std::move(message)); },
          .broken = [this](const std::string& why) { broken_.push(why); },
          .may_overwrite = [this](const std::string& path) { return question_.ask(path); }});
  try {
    control_.send(Grant{.queue_pairs = context_.settings.queue_pairs,
                        .slots = slots_.count,
                        .chunk_size = slots_.chunk_size});
    accept_queue_pairs();
    converse();
    status = tally_.failed == 0 ? 0 : 1;
  } catch (const Interrupted&) {
    ended = "interrupted";
    status = kExitInterrupted;
  } catch (const std::exception& problem) {
    ended = problem.what();
  }
  question_.end();
  if (!ended.empty()) {
    try {
      control_.send(Abort{status == kExitInterrupted ? "the receiver was interrupted" : ended});
    } catch (const std::exception&) {  // it is gone
    }
  }
  control_.flush(rdma::Deadline{milliseconds{500}});
  workers_.clear();
  placement_.reset();
  context_.folder.remove_hidden_if_empty();
  progress_.finish(ended.empty() ? ""
                                 : fmt::format("verbena receive: {}; run the same commands again "
                                               "to continue",
                                               ended));
  return status;
}

void Session::take(std::vector<std::byte> message) {
  switch (type_of(message)) {
    case MessageType::ping:
      return;
    case MessageType::abort:
      throw Broken{printable(decode<Abort>(message).text)};
    case MessageType::totals: {
      const auto totals = decode<Totals>(message);
      tally_.entries_total = totals.entries;
      tally_.bytes_total = totals.bytes;
      return;
    }
    default:
      placement_->add(std::move(message));
  }
}

void Session::converse() {
  while (!goodbye_) {
    while (auto message = control_.next()) take(std::move(*message));
    for (auto& reply : replies_.take()) {
      goodbye_ = goodbye_ || type_of(reply) == MessageType::goodbye;
      control_.send_encoded(std::move(reply));
    }
    look_after();
    if (goodbye_) return;
    std::vector<pollfd> others{
        {.fd = replies_.fd(), .events = POLLIN, .revents = 0},
        {.fd = broken_.fd(), .events = POLLIN, .revents = 0},
        {.fd = interrupt_fd(), .events = POLLIN, .revents = 0},
        {.fd = context_.listener.fd(), .events = POLLIN, .revents = 0},
        {.fd = context_.door.fd(), .events = POLLIN, .revents = 0},
        {.fd = question_.fd(), .events = POLLIN, .revents = 0},
        {.fd = question_.open() ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
        {.fd = ticket_ && !orphaned_ ? ticket_->socket.get() : -1, .events = POLLIN, .revents = 0}};
    control_.wait(others, rdma::Deadline{kLook});
    if (others[3].revents != 0) turn_away();
    if (others[4].revents != 0) context_.door.answer();
    if (others[5].revents != 0) progress_.clear(), question_.show();
    if (others[6].revents != 0) question_.read_answer();
  }
}

void Session::turn_away() {
  if (auto request = context_.listener.next(rdma::Deadline{milliseconds{0}})) {
    request->reject(rejection("it serves another sender; try again later"));
  }
}

void Session::look_after() {
  if (interrupted()) throw Interrupted{};
  for (const std::string& why : broken_.take()) throw Broken{why};
  // Its last words may be on their way.
  if (ticket_ && !orphaned_ && !goodbye_ && is_gone(ticket_->socket)) orphaned_ = milliseconds{500};
  if (orphaned_ && orphaned_->passed()) throw Broken{"the sender's process has ended"};
  control_.keep_alive(idle_);
  if (!question_.open()) progress_.show();
}

}  // namespace

std::span<const std::byte> rejection(std::string_view words) {
  return std::as_bytes(std::span{words});
}

int serve(rdma::ConnectionRequest& request, const SessionContext& context) {
  const InterruptsWait wait;
  try {
    Session session{request, context};
    try {
      session.authenticate();
    } catch (const std::runtime_error& why) {
      session.refuse(why.what());
      return interrupted() ? kExitInterrupted : kNotServed;
    }
    return session.run();
  } catch (const rdma::Error& error) {
    std::fputs(fmt::format("verbena receive: a sender went away: {}\n", error.what()).c_str(),
               stderr);
    return interrupted() ? kExitInterrupted : kNotServed;
  }
}

}  // namespace verbena::transfer
