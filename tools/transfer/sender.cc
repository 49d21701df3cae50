#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <thread>

#include "tools/transfer/control_channel.h"
#include "tools/transfer/interrupts.h"
#include "tools/transfer/names.h"
#include "tools/transfer/options.h"
#include "tools/transfer/progress.h"
#include "tools/transfer/same_user.h"
#include "tools/transfer/send_worker.h"
#include "tools/transfer/sources.h"

namespace verbena::transfer {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kOpenEntries = 64;  // entries whose result isn't known yet
constexpr milliseconds kLook{200};
// A receiver that was started in the same line of a shell may not listen yet.
constexpr milliseconds kStartOfReceiver{2000}, kAskAgain{50};

milliseconds idle_of(const CommonOptions& options) {
  return milliseconds{static_cast<std::int64_t>(options.timeout * 1000)};
}

struct Interrupted {};

class Sender {
 public:
  Sender(const SendOptions& options, Sources sources)
      : options_{options},
        idle_{idle_of(options.common)},
        sources_{std::move(sources)},
        shared_{options.limit},
        progress_{shared_.tally, "sent", options.common.json} {
    shared_.tally.entries_total = sources_.all.size() + sources_.problems.size();
    shared_.tally.bytes_total = sources_.bytes;
  }

  int run();

 private:
  void connect();
  void authenticate();
  void connect_queue_pairs();
  void converse();
  void look_after();
  void begin(const Source& source);
  [[nodiscard]] std::shared_ptr<OutgoingFile> open_file(const Source& source);
  void handle(std::span<const std::byte> message);
  void handle(const Have& have);
  void handle(const Verdict& verdict);
  void handle(const Result& result);
  void conclude(OutgoingFile& file);
  void fail(const std::string& line);
  OutgoingFile& file_of(std::uint64_t id);

  const SendOptions& options_;
  milliseconds idle_;
  Sources sources_;
  SendShared shared_;
  Progress progress_;
  std::optional<Secret> key_;
  std::optional<Ticket> ticket_;
  std::optional<rdma::SocketAddress> to_;
  std::optional<ControlChannel> control_;
  Nonces nonces_;
  const Secret* secret_ = nullptr;
  Grant grant_;
  std::vector<std::unique_ptr<SendWorker>> workers_;
  std::size_t next_source_ = 0;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::shared_ptr<OutgoingFile>> open_;
  bool done_sent_ = false, goodbye_ = false;
  std::optional<rdma::Deadline> orphaned_;  // the receiver's process has ended
};

std::string reached(const std::string& host, const rdma::Error& why, std::uint16_t port) {
  const auto* const rejected = dynamic_cast<const rdma::Rejected*>(&why);
  if (rejected != nullptr && rejected->reason() == 28) {
    const auto words = rejected->private_data();
    const std::string text{reinterpret_cast<const char*>(words.data()), words.size()};
    return fmt::format("{}: the receiver said no: {}", host, printable(text.c_str()));
  }
  return fmt::format("{}; is `verbena receive{} DIR` running on {}?", why.what(),
                     port == kPort ? "" : fmt::format(" --port {}", port), host);
}

bool nobody_listens(const rdma::Error& why) {
  const auto* const rejected = dynamic_cast<const rdma::Rejected*>(&why);
  return rejected != nullptr && rejected->reason() == 8;
}

void Sender::connect() {
  const std::string& host = options_.words.back();
  const CommonOptions& common = options_.common;
  if (!common.key_file.empty()) key_ = read_key(common.key_file);
  to_ = rdma::SocketAddress::of(host, common.port);
  auto options = connection_options(idle_);
  options.device = common.device;
  const rdma::Deadline until{kStartOfReceiver};
  while (!control_) {
    if (!key_ && !ticket_) ticket_ = ask_same_user(common.port);
    try {
      control_ = ControlChannel::connect(*to_, options);
    } catch (const rdma::Error& error) {
      if (!nobody_listens(error) || until.passed()) {
        throw std::runtime_error{reached(host, error, common.port)};
      }
      std::this_thread::sleep_for(kAskAgain);
    }
  }
  // It may have begun to listen between the two.
  if (!key_ && !ticket_) ticket_ = ask_same_user(common.port);
}

void Sender::authenticate() {
  const rdma::Deadline until{idle_};
  nonces_.sender = random_bytes();
  control_->send(Hello{.nonce = nonces_.sender,
                       .ticket = ticket_ ? ticket_->number : 0,
                       .key = static_cast<std::uint8_t>(key_ ? 1 : 0)});
  const auto challenge = control_->expect<Challenge>(until);
  nonces_.receiver = challenge.nonce;
  const bool by_key = static_cast<Trust>(challenge.trust) == Trust::key;
  if (by_key ? !key_.has_value() : !ticket_.has_value()) {
    throw std::runtime_error{"the receiver wants a proof that this end can't give; use --key-file"};
  }
  secret_ = by_key ? &*key_ : &ticket_->secret;
  if (!same(challenge.proof, prove(*secret_, kReceiverProof, nonces_))) {
    throw std::runtime_error{
        by_key ? "the receiver has another key: compare both files of --key-file"
               : "the receiver is no process of this user on this host; use --key-file"};
  }
  if (by_key) ticket_.reset();
  control_->send(Proof{prove(*secret_, kSenderProof, nonces_)});
  grant_ = control_->expect<Grant>(until);
}

void Sender::connect_queue_pairs() {
  constexpr std::uint32_t kMostPairs = 256, kMostSlots = 1 << 15, kMostChunk = 1 << 30;
  if (grant_.queue_pairs - 1 >= kMostPairs || grant_.slots - 1 >= kMostSlots ||
      grant_.chunk_size - 1 >= kMostChunk) {
    throw Malformed{fmt::format("the receiver grants {} queue pairs of {} slots of {} bytes",
                                grant_.queue_pairs, grant_.slots, grant_.chunk_size)};
  }
  const Slots slots{grant_.slots, grant_.chunk_size};
  for (std::uint32_t index = 0; index < grant_.queue_pairs; ++index) {
    auto options = SendWorker::options(connection_options(idle_), slots);
    options.device = options_.common.device;
    options.private_data = encode_fixed(QueuePairRequest{
        .index = index, .proof = prove(*secret_, kQueuePairProof, nonces_, index)});
    rdma::Connection connection = rdma::Connection::connect(*to_, options);
    const auto remote = decode_fixed<SlotMemory>(connection.private_data());
    workers_.push_back(std::make_unique<SendWorker>(std::move(connection), remote, slots, shared_));
  }
}

int Sender::run() {
  for (const std::string& problem : sources_.problems) fail(problem);
  std::string ended;
  int status = 1;
  const InterruptsWait wait;
  try {
    connect();
    authenticate();
    progress_.say(fmt::format("sending {} entries, {}, to {}; not encrypted", sources_.all.size(),
                              size_text(sources_.bytes),
                              control_->connection().peer().to_string()));
    connect_queue_pairs();
    control_->send(Totals{.entries = sources_.all.size(), .bytes = sources_.bytes});
    converse();
    status = shared_.tally.failed == 0 ? 0 : 1;
  } catch (const Interrupted&) {
    ended = "interrupted; run the same command again to continue";
    status = kExitInterrupted;
  } catch (const std::exception& problem) {
    ended = fmt::format("{}; run the same commands again to continue", problem.what());
    if (!control_) ended = problem.what();
  }
  shared_.queue.close();
  if (!ended.empty() && control_) {
    try {
      control_->send(Abort{status == kExitInterrupted
                               ? "the sender was interrupted"
                               : fmt::format("the sender ended: {}", ended)});
    } catch (const std::exception&) {  // it is gone
    }
    control_->flush(rdma::Deadline{milliseconds{500}});
  }
  workers_.clear();
  if (control_ || ended.empty()) {
    progress_.finish(ended.empty() ? "" : fmt::format("verbena send: {}", ended));
  } else {
    progress_.complain(fmt::format("verbena send: {}", ended));
  }
  return status;
}

void Sender::converse() {
  while (!goodbye_) {
    while (auto message = control_->next()) handle(*message);
    if (goodbye_) return;
    while (next_source_ < sources_.all.size() && open_.size() < kOpenEntries) {
      begin(sources_.all[next_source_++]);
    }
    if (next_source_ == sources_.all.size() && open_.empty() && !done_sent_) {
      done_sent_ = true;
      control_->send(Done{});
    }
    look_after();
    std::vector<pollfd> others{{.fd = shared_.settled.fd(), .events = POLLIN, .revents = 0},
                               {.fd = shared_.broken.fd(), .events = POLLIN, .revents = 0},
                               {.fd = interrupt_fd(), .events = POLLIN, .revents = 0}};
    if (ticket_ && !orphaned_) {
      others.push_back({.fd = ticket_->socket.get(), .events = POLLIN, .revents = 0});
    }
    control_->wait(others, rdma::Deadline{kLook});
    for (const auto& file : shared_.settled.take()) {
      if (open_.contains(file->entry.id)) conclude(*file);
    }
  }
}

void Sender::look_after() {
  if (interrupted()) throw Interrupted{};
  // Its last words may be on their way.
  if (ticket_ && !orphaned_ && is_gone(ticket_->socket)) orphaned_ = milliseconds{500};
  if (orphaned_ && orphaned_->passed()) throw Broken{"the receiver's process has ended"};
  if (!orphaned_) {
    for (const std::string& why : shared_.broken.take()) throw Broken{why};
  }
  control_->keep_alive(idle_);
  progress_.show();
}

void Sender::fail(const std::string& line) {
  ++shared_.tally.failed;
  progress_.complain(fmt::format("verbena send: {}", line));
}

std::shared_ptr<OutgoingFile> Sender::open_file(const Source& source) {
  auto file = std::make_shared<OutgoingFile>();
  file->entry = source.entry;
  if (static_cast<Kind>(source.entry.kind) != Kind::file) return file;
  file->fd = Descriptor{open(source.file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!file->fd || fstat(file->fd.get(), &status) != 0) throw_errno(printable(source.file));
  if (!S_ISREG(status.st_mode)) {
    throw std::runtime_error{fmt::format("{}: it is no file any more", printable(source.file))};
  }
  describe(file->entry, status);
  file->chunks = {file->entry.size, grant_.chunk_size};
  if (file->chunks.count() > kMostChunks) throw_errno(printable(source.file), EFBIG);
  return file;
}

void Sender::begin(const Source& source) {
  try {
    auto file = open_file(source);
    file->entry.id = ++last_id_;
    control_->send(file->entry);
    open_.emplace(last_id_, std::move(file));
  } catch (const std::system_error& problem) {
    fail(problem.what());
  }
}

OutgoingFile& Sender::file_of(std::uint64_t id) {
  const auto found = open_.find(id);
  if (found == open_.end()) throw Malformed{"the receiver speaks of an entry that isn't open"};
  return *found->second;
}

void Sender::handle(std::span<const std::byte> message) {
  switch (type_of(message)) {
    case MessageType::have:
      return handle(decode<Have>(message));
    case MessageType::verdict:
      return handle(decode<Verdict>(message));
    case MessageType::result:
      return handle(decode<Result>(message));
    case MessageType::goodbye:
      goodbye_ = done_sent_;
      return;
    case MessageType::ping:
      return;
    case MessageType::abort:
      throw Broken{printable(decode<Abort>(message).text)};
    default:
      throw Malformed{"the receiver sent a message that only a sender sends"};
  }
}

void Sender::handle(const Have& have) {
  OutgoingFile& file = file_of(have.id);
  const std::uint64_t count = file.chunks.count();
  if (have.first > count || have.hashes.size() > count - have.first || file.unsettled > 0) {
    throw Malformed{"the receiver has hashes of chunks that this file doesn't have"};
  }
  file.have.resize(count);
  std::ranges::copy(have.hashes, file.have.begin() + static_cast<std::ptrdiff_t>(have.first));
}

void Sender::handle(const Verdict& verdict) {
  OutgoingFile& file = file_of(verdict.id);
  if (file.unsettled > 0) throw Malformed{"the receiver gave a second verdict"};
  if (!verdict.note.empty()) {
    progress_.say(fmt::format("{}: {}", printable(file.entry.path), printable(verdict.note)));
  }
  file.compare = static_cast<Action>(verdict.action) == Action::compare;
  file.cancelled = file.differs = false;
  file.leaves.assign(file.chunks.count(), Hash{});
  if (file.compare) {
    file.is_hole.assign(file.chunks.count(), false);
  } else {
    find_holes(file);
  }
  const Hash whole = hash_of_zeros(file.chunks.chunk_size);
  std::uint64_t left = 0, run = 0;
  for (std::uint64_t chunk = 0; chunk < file.chunks.count(); ++chunk) {
    bool tell = false;
    if (file.is_hole[chunk]) {
      const std::uint32_t length = file.chunks.length(chunk);
      file.leaves[chunk] = length == file.chunks.chunk_size ? whole : hash_of_zeros(length);
      tell = file.have.empty() || file.have[chunk] != file.leaves[chunk];
      shared_.tally.bytes_holes += length;
    } else {
      ++left;
    }
    if (tell) ++run;
    if (run > 0 && (!tell || chunk + 1 == file.chunks.count())) {
      control_->send(Holes{.id = verdict.id, .first = chunk + (tell ? 1 : 0) - run, .count = run});
      run = 0;
    }
  }
  file.unsettled = left;
  if (left == 0) return conclude(file);
  shared_.queue.add(open_.at(verdict.id));
}

void Sender::conclude(OutgoingFile& file) {
  const std::uint64_t id = file.entry.id;
  struct stat status {};
  Entry now = file.entry;
  if (fstat(file.fd.get(), &status) == 0) describe(now, status);
  if (file.problem().empty() && (now.size != file.entry.size || now.seconds != file.entry.seconds ||
                                 now.nanoseconds != file.entry.nanoseconds)) {
    file.fail("it changed while it was sent; run the command again");
  }
  if (const std::string problem = file.problem(); !problem.empty()) {
    fail(fmt::format("{}: {}", printable(file.entry.path), problem));
    control_->send(GiveUp{.id = id, .text = problem});
    open_.erase(id);
  } else if (file.differs) {
    file.have.clear();
    shared_.tally.bytes_kept -= file.kept.exchange(0);
    file.differs = file.cancelled = false;
    control_->send(Differs{.id = id});
  } else {
    control_->send(Finish{.id = id, .root = root_of(file.chunks, file.leaves)});
  }
}

void Sender::handle(const Result& result) {
  OutgoingFile& file = file_of(result.id);
  const std::string name = printable(file.entry.path);
  const std::string text = printable(result.text);
  switch (static_cast<Outcome>(result.outcome)) {
    case Outcome::placed:
      ++shared_.tally.placed;
      break;
    case Outcome::identical:
      ++shared_.tally.identical;
      break;
    case Outcome::skipped:
      ++shared_.tally.skipped;
      progress_.say(fmt::format("{}: {}", name, text));
      break;
    case Outcome::failed:
      fail(fmt::format("{}: {}", name, text));
      break;
  }
  file.cancelled = true;  // whatever its chunks are doing
  open_.erase(result.id);
}

}  // namespace

int send(const SendOptions& options) {
  std::vector<std::string> paths{options.words.begin(), options.words.end() - 1};
  Sources sources = find_sources(paths);
  if (sources.all.empty()) {
    for (const std::string& problem : sources.problems) {
      std::fputs(fmt::format("verbena send: {}\n", problem).c_str(), stderr);
    }
    return 1;
  }
  return Sender{options, std::move(sources)}.run();
}

}  // namespace verbena::transfer
