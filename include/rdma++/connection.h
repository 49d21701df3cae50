// A reliable connection made by rdma_cm, with what most programs need around it.
//
//   Connection conn = Connection::connect("192.0.2.1", 7471);
//   Buffer data = conn.buffer(4096);
//   conn.write(data, conn.recv_value<RemoteBuffer>());
//
// Everything is reachable below: context(), pd(), cq(), qp(). One thread at a time; another one may
// end its waits by qp().to_error().
#pragma once

#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rdma++/buffer.h"
#include "rdma++/cm_id.h"
#include "rdma++/completion_queue.h"
#include "rdma++/connection_options.h"
#include "rdma++/device.h"
#include "rdma++/queue_pair.h"
#include "rdma++/value.h"

namespace rdma {

/// The peer hung up while something was waited for.
class Disconnected : public Error {
 public:
  explicit Disconnected(std::string object)
      : Error{"connection", std::move(object), ECONNRESET, "the peer disconnected"} {}
};

class Connection {
 public:
  /// Throws Rejected, TimedOut or Error.
  [[nodiscard]] static Connection connect(const std::string& host, std::uint16_t port,
                                          const ConnectionOptions& options = {}) {
    return connect(SocketAddress::of(host, port), options);
  }
  [[nodiscard]] static Connection connect(const SocketAddress& to,
                                          const ConnectionOptions& options = {});

  Connection(Connection&&) noexcept = default;
  Connection& operator=(Connection&& other) noexcept {
    hang_up();
    parts_ = std::move(other.parts_);
    return *this;
  }
  ~Connection() { hang_up(); }

  // ---------------------------------------------------------------- what it is made of

  [[nodiscard]] const Context& context() const noexcept { return parts_->context; }
  [[nodiscard]] const ProtectionDomain& pd() const noexcept { return parts_->pd; }
  [[nodiscard]] CompletionQueue& cq() noexcept { return parts_->cq; }
  [[nodiscard]] QueuePair& qp() noexcept { return parts_->qp; }
  [[nodiscard]] const CmId& id() const noexcept { return parts_->id; }
  /// Readable when the peer hangs up, among others; see check_peer().
  [[nodiscard]] int event_fd() const noexcept { return parts_->channel.fd(); }
  [[nodiscard]] SocketAddress local() const { return parts_->id.local(); }
  [[nodiscard]] SocketAddress peer() const { return parts_->id.peer(); }

  /// What the peer offered. InfiniBand's messages have fields of fixed size: zeros may follow.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    return parts_->private_data;
  }
  template <Value T>
  [[nodiscard]] T private_value() const {
    return value_of<T>(private_data(), peer_name());
  }
  template <Value T>
  static T value_of(std::span<const std::byte> bytes, const std::string& object) {
    if (bytes.size() < sizeof(T)) {
      throw Error{"private data", object, EBADMSG,
                  concat("the peer sent ", bytes.size(), " bytes, wanted are ", sizeof(T))};
    }
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  /// Memory of this connection's protection domain.
  [[nodiscard]] Buffer buffer(std::size_t size, Access access = Access::local_write) const {
    return {pd(), size, access};
  }

  // ---------------------------------------------------------------- by hand: post, then wait

  PostStatus post(const SendRequest& request) const noexcept { return parts_->qp.post(request); }
  PostStatus post(const Recv& request) const noexcept { return parts_->qp.post(request); }
  template <class Request>
  PostStatus post(std::span<Request> chain) const noexcept {
    return parts_->qp.post(chain);
  }
  /// The next completion of what was posted so; nullopt: none by then. Nothing is given up.
  [[nodiscard]] std::optional<Completion> wait(Deadline until) {
    if (auto kept = take_kept()) return kept;
    return next(until);
  }
  /// The same with the connection's own timeout; throws TimedOut or Disconnected.
  [[nodiscard]] Completion wait() {
    if (const auto done = wait(patience())) return *done;
    if (parts_->peer_left) throw Disconnected{peer_name()};
    throw TimedOut{"completion", peer_name()};
  }

  // ---------------------------------------------------------------- one call: post and wait
  //
  // They return when the request is done, and throw CompletionError, Disconnected or TimedOut when
  // it failed. A request can't be taken back: one that is late takes the whole connection to the
  // error state, and only then does the call return, so that its memory is free in any case.

  /// Any request of the send queue; here the status is the caller's to look at.
  Completion perform(const SendRequest& request) { return perform(request, patience()); }
  Completion perform(SendRequest request, Deadline until) {
    const std::uint64_t theirs = request.id();
    const std::uint64_t ours = parts_->next_id++;
    request.set_id(ours);
    request.set_signaled();
    post(request).check();
    const Sending sending{*parts_};
    Completion done = finish(ours, until);
    done.wr_id = theirs;
    return done;
  }

  Completion write(const Slice& data, const RemoteBuffer& to) {
    return write(data, to, patience());
  }
  Completion write(const Slice& data, const RemoteBuffer& to, Deadline until) {
    return checked(perform(Write{data, fit(to, data)}, until));
  }
  Completion read(const Slice& into, const RemoteBuffer& from) {
    return read(into, from, patience());
  }
  Completion read(const Slice& into, const RemoteBuffer& from, Deadline until) {
    return checked(perform(Read{into, fit(from, into)}, until));
  }
  Completion send(const Slice& data) { return send(data, patience()); }
  Completion send(const Slice& data, Deadline until) { return checked(perform(Send{data}, until)); }
  /// Posts a receive and waits for its message. The n-th message meets the n-th receive: mind those
  /// posted before.
  Completion recv(const Slice& into) { return recv(into, patience()); }
  Completion recv(const Slice& into, Deadline until) {
    const std::uint64_t ours = post_recv(into);
    return checked(finish(ours, until));
  }

  /// Each returns what was there before.
  std::uint64_t fetch_add(const RemoteBuffer& at, std::uint64_t add) {
    checked(perform(FetchAdd{control(kAtomicAt, 8), at, add}));
    return atomic_result();
  }
  std::uint64_t compare_swap(const RemoteBuffer& at, std::uint64_t expected,
                             std::uint64_t desired) {
    checked(perform(CompareSwap{control(kAtomicAt, 8), at, expected, desired}));
    return atomic_result();
  }

  /// To a peer of the same byte order and layout, who calls recv_value of the same type.
  template <Value T>
  void send_value(const T& value) {
    static_assert(sizeof(T) <= kValueSize, "send it from a buffer()");
    std::memcpy(parts_->control.data() + kSendAt, &value, sizeof value);
    send(control(kSendAt, sizeof value));
  }
  template <Value T>
  [[nodiscard]] T recv_value() {
    return recv_value<T>(patience());
  }
  template <Value T>
  [[nodiscard]] T recv_value(Deadline until) {
    static_assert(sizeof(T) <= kValueSize, "receive it in a buffer()");
    const Completion done = recv(control(kRecvAt, kValueSize), until);
    if (done.length() != sizeof(T)) {
      throw Error{"recv_value", peer_name(), EBADMSG,
                  concat("the peer sent ", done.length(), " bytes, wanted are ", sizeof(T),
                         "; both sides must exchange values in the same order")};
    }
    T value;
    std::memcpy(&value, parts_->control.data() + kRecvAt, sizeof value);
    return value;
  }

  /// Returns when both sides have called it. Uses one message and one receive each way.
  void barrier() { barrier(patience()); }
  void barrier(Deadline until);

  // ---------------------------------------------------------------- the end

  /// False once the peer has hung up, or we have. Looks at the events that came.
  [[nodiscard]] bool connected() {
    check_peer();
    return !parts_->left && !parts_->peer_left;
  }
  /// Takes note of events of rdma_cm; the calls that wait do that themselves.
  void check_peer();
  /// Says goodbye and waits for the answer. What is in flight completes with WR_FLUSH_ERR.
  void disconnect() { disconnect(patience()); }
  void disconnect(Deadline until);

 private:
  friend class AsyncConnection;
  friend class ConnectionRequest;

  static constexpr std::size_t kValueSize = 1024;
  static constexpr std::size_t kSendAt = 0, kRecvAt = 1024, kAtomicAt = 2048, kControlSize = 4096;
  static constexpr std::uint32_t kBarrier = 0x62'61'72'72;  // "barr", in immediate data
  /// Ids of our own requests; a program's are below.
  static constexpr std::uint64_t kFirstId = std::uint64_t{1} << 63;

  /// On the heap, so that a Connection can be moved while `prepare` or a reactor knows its address.
  struct Parts {
    CmChannel channel;
    CmId id;
    Context context;
    ProtectionDomain pd;
    CompletionQueue cq;
    Buffer control;  // outlives the requests of the queue pair
    QueuePair qp;
    std::vector<std::byte> private_data;
    std::deque<Completion> kept;  // polled while somebody waited for another one
    std::chrono::milliseconds timeout;
    std::chrono::milliseconds linger;
    bool foreign_recv_cq;
    std::uint64_t next_id = kFirstId;
    int sends_waiting = 0;
    bool established = false;
    bool peer_left = false;
    bool left = false;                  // we said goodbye
    std::optional<Deadline> flush_at;   // when the peer has hung up
    std::optional<Deadline> silent_at;  // flushed: nothing comes any more after that
  };

  /// While a request of ours waits for the peer's acknowledgement.
  struct Sending {
    explicit Sending(Parts& of) : parts{of} { ++parts.sends_waiting; }
    ~Sending() { --parts.sends_waiting; }
    Sending(const Sending&) = delete;
    Sending& operator=(const Sending&) = delete;
    Parts& parts;
  };

  Connection(CmChannel channel, CmId id, const ConnectionOptions& options);

  void start_as_client(const ConnectionOptions& options, Deadline until);
  /// Two steps, so that a coroutine can wait in between.
  void answer_as_server(const ConnectionOptions& options, const rdma_conn_param& request);
  void wait_until_established(Deadline until);
  rdma_conn_param parameters(const char* verb, const ConnectionOptions& options,
                             std::size_t room) const;
  void ready_to_send(const ConnectionOptions& options, std::uint8_t responder_resources,
                     std::uint8_t initiator_depth);

  [[nodiscard]] Deadline patience() const { return parts_->timeout; }
  [[nodiscard]] std::string peer_name() const { return concat("to ", peer().to_string()); }
  [[nodiscard]] Slice control(std::size_t offset, std::size_t size) const {
    return parts_->control.slice(offset, size);
  }
  [[nodiscard]] std::uint64_t atomic_result() const {
    return parts_->control.as<std::uint64_t>()[kAtomicAt / 8];
  }
  /// A request longer than the peer's buffer is caught here, where both numbers are known.
  static const RemoteBuffer& fit(const RemoteBuffer& remote, const Slice& local) {
    detail::check_range("RemoteBuffer", 0, local.length, remote.length);
    return remote;
  }
  Completion checked(const Completion& done) const {
    if (done.status == IBV_WC_WR_FLUSH_ERR && parts_->peer_left) throw Disconnected{peer_name()};
    return done.check();
  }
  std::optional<Completion> take_kept() {
    if (parts_->kept.empty()) return std::nullopt;
    const Completion first = parts_->kept.front();
    parts_->kept.pop_front();
    return first;
  }

  void check_recv_cq() const {
    if (parts_->foreign_recv_cq) {
      throw Error{"recv", peer_name(), EINVAL,
                  "receives of this connection complete on recv_cq of its options: post() a Recv "
                  "and poll that queue"};
    }
  }
  /// Its id.
  std::uint64_t post_recv(const Slice& into) {
    check_recv_cq();
    const std::uint64_t ours = parts_->next_id++;
    post(Recv{into}.id(ours)).check();
    return ours;
  }
  [[nodiscard]] std::optional<Completion> next(Deadline until);
  Completion finish(std::uint64_t id, Deadline until);
  [[nodiscard]] std::optional<Completion> find(std::uint64_t id, Deadline until);
  void say_goodbye();
  void flush();
  void hang_up() noexcept;

  std::unique_ptr<Parts> parts_;
};

}  // namespace rdma

#include "rdma++/connection_setup.h"
#include "rdma++/connection_waits.h"
