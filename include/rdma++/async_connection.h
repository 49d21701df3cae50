// A Connection for coroutines:
//
//   const Completion done = co_await conn.write(data, remote);
//   co_await conn.recv(room, {2s, token});
//
// A completion is returned whatever its status; .check() throws. A deadline that passes throws
// TimedOut, a requested stop Cancelled. A request can't be taken back: either one takes the
// connection to the error state, and the coroutine goes on when the device has let go of the
// memory.
#pragma once

#ifdef __cpp_impl_coroutine

#include <coroutine>
#include <utility>
#include <variant>

#include "rdma++/connection.h"
#include "rdma++/listener.h"
#include "rdma++/reactor.h"
#include "rdma++/value.h"

namespace rdma {

class AsyncConnection {
 public:
  class Operation;

  AsyncConnection(Reactor& reactor, Connection connection)
      : source_{std::make_unique<Source>(reactor, std::move(connection))} {}

  /// Accepts at once; the task waits until the peer is there, while others run.
  [[nodiscard]] static Task<AsyncConnection> accept(Reactor& reactor, ConnectionRequest& request,
                                                    WaitOptions wait = {}) {
    return accept(reactor, request, ConnectionOptions{}, std::move(wait));
  }
  /// `options` must have a name: see WaitOptions for what g++ 12 does to temporaries of this kind.
  [[nodiscard]] static Task<AsyncConnection> accept(Reactor& reactor, ConnectionRequest& request,
                                                    const ConnectionOptions& options,
                                                    WaitOptions wait = {}) {
    return established(reactor, request.answer(options), std::move(wait));
  }

  /// What it was made of. Don't wait on it while the reactor runs.
  [[nodiscard]] Connection& connection() noexcept { return source_->connection; }
  [[nodiscard]] Buffer buffer(std::size_t size, Access access = Access::local_write) const {
    return source_->connection.buffer(size, access);
  }

  [[nodiscard]] Operation perform(const SendRequest& request, WaitOptions options = {});
  [[nodiscard]] Operation write(const Slice& data, const RemoteBuffer& to,
                                WaitOptions options = {});
  [[nodiscard]] Operation read(const Slice& into, const RemoteBuffer& from,
                               WaitOptions options = {});
  [[nodiscard]] Operation send(const Slice& data, WaitOptions options = {});
  [[nodiscard]] Operation recv(const Slice& into, WaitOptions options = {});

  /// As those of Connection; throw when the request fails.
  template <Value T>
  Task<> send_value(T value, WaitOptions options = {});
  template <Value T>
  Task<T> recv_value(WaitOptions options = {});
  /// As that of Connection.
  Task<> disconnect(WaitOptions options = {});

 private:
  class Farewell;

  static Task<AsyncConnection> established(Reactor& reactor, Connection connection,
                                           WaitOptions wait) {
    co_await reactor.readable(connection.event_fd(), wait);
    connection.wait_until_established(std::chrono::seconds{0});
    co_return AsyncConnection{reactor, std::move(connection)};
  }

  /// On the heap, so that an AsyncConnection can be moved while coroutines wait on it.
  struct Source : EventSource {
    Source(Reactor& on, Connection over) : connection{std::move(over)}, reactor_{&on} {
      on.add(*this, {connection.cq().fd(), connection.event_fd()});
    }
    ~Source() override {
      drain();
      send_leavers_away();
      if (reactor_ != nullptr) {
        reactor_->remove(*this, {connection.cq().fd(), connection.event_fd()});
      }
    }

    bool poll() override;
    void arm() override {
      if (!connection.cq().armed()) connection.cq().arm();
    }
    void readable() override {
      while (connection.cq().take_event()) continue;
      connection.check_peer();
      if (connection.parts_->peer_left) peer_left();
    }
    void peer_left();
    void send_leavers_away();
    [[nodiscard]] Deadline wake_at() const override {
      return connection.parts_->flush_at.value_or(Deadline::never());
    }
    /// Destructors call it, and the loop: where it fails there is nobody to tell.
    void abort() noexcept {
      try {
        if (connection.qp().state() != IBV_QPS_ERR) connection.qp().to_error();
      } catch (const std::exception& failure) {
        report(concat("giving up a request: ", failure.what()));
      }
    }
    /// Afterwards no request of ours is in flight.
    void drain() noexcept;
    /// What is in flight can't tell its coroutine any more.
    void reactor_gone() noexcept override {
      drain();
      reactor_ = nullptr;
    }
    [[nodiscard]] Reactor& reactor() const {
      if (reactor_ != nullptr) return *reactor_;
      throw Error{"AsyncConnection", connection.peer_name(), EINVAL, "its reactor is gone"};
    }

    Connection connection;
    int pending = 0;                 // operations that have not completed
    std::vector<Farewell*> leavers;  // who waits for the peer to hang up

   private:
    Reactor* reactor_;  // null: destroyed before us
  };

  std::unique_ptr<Source> source_;
};

/// One request; awaiting it posts it.
class AsyncConnection::Operation : public Waiter {
 public:
  template <class Request>
  Operation(Source& source, const Request& request, WaitOptions options)
      : Waiter{source.reactor()},
        source_{source},
        request_{request},
        options_{std::move(options)} {}
  ~Operation() override {  // of a coroutine that is destroyed while it waits
    if (!posted_) return;
    source_.abort();
    const Deadline until = std::chrono::seconds{5};
    while (posted_ && !until.passed()) source_.poll();
    if (posted_) report("a request of a destroyed coroutine did not flush");
  }

  bool await_ready() const noexcept { return options_.stop.stop_requested(); }
  bool await_suspend(std::coroutine_handle<> coroutine) {
    wait(coroutine, options_);
    status_ = std::visit([this](auto& request) { return post(request); }, request_);
    if (!status_.ok()) return false;
    posted_ = true;
    ++source_.pending;
    if (is_send()) ++source_.connection.parts_->sends_waiting;
    return true;
  }
  Completion await_resume() const {
    if (!status_.ok()) status_.check();
    if (end() == End::none || why_ == End::cancelled) throw Cancelled{"completion", peer_};
    if (why_ == End::timed_out) {
      throw TimedOut{"completion", peer_, "the connection is in the error state now"};
    }
    return result_;
  }

 private:
  friend struct Source;

  [[nodiscard]] bool is_send() const noexcept {
    return std::holds_alternative<SendRequest>(request_);
  }
  PostStatus post(SendRequest& request) {
    result_.wr_id = request.id();  // the caller's, given back with the completion
    request.set_id(id());
    request.set_signaled();
    return source_.connection.post(request);
  }
  PostStatus post(Recv& request) {
    result_.wr_id = request.id();
    request.id(id());
    return source_.connection.post(request);
  }

  void completed(const Completion& how) {
    const std::uint64_t theirs = result_.wr_id;
    result_ = how;
    result_.wr_id = theirs;
    posted_ = false;
    --source_.pending;
    if (is_send()) --source_.connection.parts_->sends_waiting;
    if (how.ok()) why_ = End::none;  // it was faster than whoever gave it up
    finish(End::done);
  }
  void give_up(End why) override {
    why_ = why;
    peer_ = source_.connection.peer_name();
    source_.abort();  // its completion comes as WR_FLUSH_ERR
  }

  Source& source_;
  std::variant<SendRequest, Recv> request_;
  WaitOptions options_;
  PostStatus status_;
  Completion result_{};
  std::string peer_;
  End why_ = End::none;
  bool posted_ = false;
};

inline bool AsyncConnection::Source::poll() {
  Completion room[16];
  const auto batch = connection.cq().poll(std::span{room});
  for (const Completion& done : batch) {
    if (Waiter* const waiter = reactor_ != nullptr ? reactor_->find(done.id()) : nullptr) {
      static_cast<Operation*>(waiter)->completed(done);
    } else {
      connection.parts_->kept.push_back(done);  // the program's own: for Connection::wait()
    }
  }
  if (connection.parts_->flush_at && connection.parts_->flush_at->passed()) connection.flush();
  return !batch.empty();
}

inline void AsyncConnection::Source::drain() noexcept {
  if (pending == 0) return;
  abort();
  const Deadline until = std::chrono::seconds{5};
  while (pending > 0 && !until.passed()) poll();
  if (pending > 0) report(concat(pending, " requests of a connection did not flush"));
}

inline AsyncConnection::Operation AsyncConnection::perform(const SendRequest& request,
                                                           WaitOptions options) {
  return {*source_, request, std::move(options)};
}
inline AsyncConnection::Operation AsyncConnection::write(const Slice& data, const RemoteBuffer& to,
                                                         WaitOptions options) {
  return {*source_, SendRequest{Write{data, Connection::fit(to, data)}}, std::move(options)};
}
inline AsyncConnection::Operation AsyncConnection::read(const Slice& into, const RemoteBuffer& from,
                                                        WaitOptions options) {
  return {*source_, SendRequest{Read{into, Connection::fit(from, into)}}, std::move(options)};
}
inline AsyncConnection::Operation AsyncConnection::send(const Slice& data, WaitOptions options) {
  return {*source_, SendRequest{Send{data}}, std::move(options)};
}
inline AsyncConnection::Operation AsyncConnection::recv(const Slice& into, WaitOptions options) {
  source_->connection.check_recv_cq();
  return {*source_, Recv{into}, std::move(options)};
}

/// Waits for the peer to hang up.
class AsyncConnection::Farewell : public Waiter {
 public:
  Farewell(Source& source, WaitOptions options)
      : Waiter{source.reactor()}, source_{&source}, options_{std::move(options)} {
    source.leavers.push_back(this);
  }
  ~Farewell() override {
    if (source_ != nullptr) std::erase(source_->leavers, this);
  }

  bool await_ready() const { return source_->connection.parts_->peer_left; }
  void await_suspend(std::coroutine_handle<> coroutine) { wait(coroutine, options_); }
  void await_resume() const {
    if (end() == End::timed_out) throw TimedOut{"rdma_disconnect", "", "the peer didn't answer"};
    if (end() == End::cancelled || source_ == nullptr) throw Cancelled{"rdma_disconnect", ""};
  }

 private:
  friend struct Source;
  Source* source_;  // null: the connection was destroyed first
  WaitOptions options_;
};

inline void AsyncConnection::Source::peer_left() {
  for (Farewell* const leaver : leavers) {
    if (leaver->id() != 0) leaver->finish(Farewell::End::done);
  }
}

inline void AsyncConnection::Source::send_leavers_away() {
  for (Farewell* const leaver : leavers) {
    leaver->source_ = nullptr;
    if (leaver->id() != 0) leaver->finish(Farewell::End::cancelled);
  }
}

inline Task<> AsyncConnection::disconnect(WaitOptions options) {
  Connection& connection = source_->connection;
  connection.check_peer();
  connection.say_goodbye();
  co_await Farewell{*source_, options};
  connection.qp().to_error();
}

template <Value T>
Task<> AsyncConnection::send_value(T value, WaitOptions options) {
  const Buffer room = buffer(sizeof(T));
  std::memcpy(room.data(), &value, sizeof value);
  const Completion done = co_await send(room, options);
  source_->connection.checked(done);
}

template <Value T>
Task<T> AsyncConnection::recv_value(WaitOptions options) {
  const Buffer room = buffer(sizeof(T));
  const Completion done = co_await recv(room, options);
  source_->connection.checked(done);
  if (done.length() != sizeof(T)) {
    throw Error{"recv_value", source_->connection.peer_name(), EBADMSG,
                concat("the peer sent ", done.length(), " bytes, wanted are ", sizeof(T))};
  }
  T value;
  std::memcpy(&value, room.data(), sizeof value);
  co_return value;
}

}  // namespace rdma

#endif  // __cpp_impl_coroutine
