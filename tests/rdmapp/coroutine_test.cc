// Coroutines on connections: completions, deadlines, cancellation, frames that are destroyed.
#include "tests/rdmapp/loopback.h"

#ifdef __cpp_impl_coroutine

#include <latch>

namespace rdma {
/// For the names of the tests.
static void PrintTo(Reactor::Mode mode, std::ostream* out) {
  *out << (mode == Reactor::Mode::channel ? "channel" : "poll");
}
}  // namespace rdma

namespace rdma::test {
namespace {

using testing::HasSubstr;

/// Both ends on one reactor, in both of its modes.
class Coroutines : public Quiet, public testing::WithParamInterface<Reactor::Mode> {
 protected:
  Coroutines() : Coroutines{connect_ends()} {}

  Reactor reactor{GetParam()};
  AsyncConnection client;
  AsyncConnection server;

 private:
  explicit Coroutines(Ends ends)
      : client{reactor, std::move(ends.client)}, server{reactor, std::move(ends.server)} {}
};

std::vector<Task<>> both(Task<> first, Task<> second) {
  std::vector<Task<>> tasks;
  tasks.push_back(std::move(first));
  tasks.push_back(std::move(second));
  return tasks;
}

Task<> offer(AsyncConnection& conn, const Buffer& target) {
  co_await conn.send_value(target.remote());
  EXPECT_EQ(co_await conn.recv_value<int>(), 42);
  EXPECT_EQ(target.text(), "by a coroutine");
}

Task<> use(AsyncConnection& conn) {
  const auto remote = co_await conn.recv_value<RemoteBuffer>();
  Buffer source = conn.buffer(64), back = conn.buffer(64);
  source.set_text("by a coroutine");
  const Completion written = co_await conn.write(source, remote);
  EXPECT_TRUE(written.ok());
  const Completion read = co_await conn.read(back, remote);
  EXPECT_TRUE(read.ok());
  EXPECT_EQ(back.text(), source.text());
  const Completion atomic =
      co_await conn.perform(FetchAdd{back.slice(0, 8), remote.slice(64, 8), 3}.id(5));
  EXPECT_EQ(atomic.id(), 5u);
  co_await conn.send_value(42);
}

TEST_P(Coroutines, TheWholeFlowInOneThread) {
  const Buffer target = server.buffer(128, Access::remote);
  reactor.run(reactor.when_all(both(offer(server, target), use(client))));
  EXPECT_EQ(target.as<std::uint64_t>()[8], 3u);
}

Task<> many_writes(AsyncConnection& conn, RemoteBuffer to, int writes) {
  Buffer source = conn.buffer(8);
  for (int i = 0; i < writes; ++i) {
    const Completion done = co_await conn.write(source, to);
    done.check();
  }
}

TEST_P(Coroutines, ManyShareAConnection) {
  const Buffer target = server.buffer(64, Access::remote_write);
  std::vector<Task<>> tasks;
  for (int i = 0; i < 20; ++i) tasks.push_back(many_writes(client, target.remote(), 10));
  reactor.run(reactor.when_all(std::move(tasks)));
}

TEST_P(Coroutines, AFailureIsAStatusUnlessOneChecks) {
  const Buffer target = server.buffer(64);  // no remote rights
  const auto status =
      reactor.run([](AsyncConnection& conn, RemoteBuffer to) -> Task<ibv_wc_status> {
        const Buffer source = conn.buffer(8);
        const Completion done = co_await conn.write(source, to);
        co_return done.status;
      }(client, target.remote()));
  EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_THROW(reactor.run(many_writes(client, target.remote(), 1)), CompletionError);
}

Task<> expect_goodbye(AsyncConnection& conn) {
  try {
    (void)co_await conn.recv_value<int>();
    ADD_FAILURE() << "a value of nobody";
  } catch (const Disconnected&) {
  }
}

Task<> say_goodbye(AsyncConnection& conn) { co_await conn.disconnect(); }

TEST_P(Coroutines, AValueOfAPeerThatHangsUpIsNoFailedRequest) {
  reactor.run(reactor.when_all(both(expect_goodbye(client), say_goodbye(server))));
}

Task<> receive(AsyncConnection& conn, WaitOptions options) {
  const Buffer room = conn.buffer(64);
  co_await conn.recv(room, std::move(options));
}

TEST_P(Coroutines, ADeadlineThatPasses) {
  const auto before = Deadline::Clock::now();
  EXPECT_THAT(message_of<TimedOut>([&] { reactor.run(receive(client, 30ms)); }),
              HasSubstr("in the error state now"));
  EXPECT_GE(Deadline::Clock::now() - before, 30ms);
  EXPECT_EQ(client.connection().qp().query().qp_state, IBV_QPS_ERR);
}

TEST_P(Coroutines, AStopFromAnotherThread) {
  std::stop_source stop;
  std::latch waits{1};
  // A timer comes from the reactor's loop: by then the receive waits.
  reactor.spawn([](Reactor& on, std::latch& reached) -> Task<> {
    co_await on.sleep(1ms);
    reached.count_down();
  }(reactor, waits));
  std::jthread puller{[&] {
    waits.wait();
    stop.request_stop();
  }};
  EXPECT_THROW(reactor.run(receive(client, stop.get_token())), Cancelled);
}

TEST_P(Coroutines, AStopThatCameBefore) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(reactor.run(receive(client, stop.get_token())), Cancelled);
  EXPECT_EQ(client.connection().qp().query().qp_state, IBV_QPS_RTS) << "nothing was posted";
}

TEST_P(Coroutines, AStopThatComesTooLateChangesNothing) {
  std::stop_source stop;
  const Buffer target = server.buffer(64, Access::remote_write);
  reactor.run([](AsyncConnection& conn, RemoteBuffer to, std::stop_token token) -> Task<> {
    const Buffer source = conn.buffer(8);
    const Completion done = co_await conn.write(source, to, {10s, token});
    EXPECT_TRUE(done.ok());
  }(client, target.remote(), stop.get_token()));
  stop.request_stop();
  reactor.run(many_writes(client, target.remote(), 1));
}

TEST_P(Coroutines, SleepEndsOnTimeOrByAStop) {
  const auto before = Deadline::Clock::now();
  reactor.run([](Reactor& on) -> Task<> { co_await on.sleep(20ms); }(reactor));
  EXPECT_GE(Deadline::Clock::now() - before, 20ms);
  std::stop_source stop;
  std::jthread puller{[&] { stop.request_stop(); }};
  EXPECT_THROW(reactor.run([](Reactor& on, std::stop_token token) -> Task<> {
    co_await on.sleep(Deadline{10s}, token);
  }(reactor, stop.get_token())),
               Cancelled);
}

TEST_P(Coroutines, ADescriptorThatBecomesReadable) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  reactor.spawn([](Reactor& on, int fd) -> Task<> {
    co_await on.sleep(10ms);
    EXPECT_EQ(write(fd, "x", 1), 1);
  }(reactor, ends[1]));
  reactor.run([](Reactor& on, int fd) -> Task<> { co_await on.readable(fd); }(reactor, ends[0]));
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_THROW(reactor.run([](Reactor& on, int fd) -> Task<> { co_await on.readable(fd, 10ms); }(
                                                       reactor, ends[0])),
               TimedOut);
  close(ends[0]);
  close(ends[1]);
}

TEST_P(Coroutines, AnExceptionOfASpawnedTaskComesOutOfRun) {
  reactor.spawn([](Reactor& on) -> Task<> {
    co_await on.sleep(5ms);
    throw std::runtime_error{"spawned"};
  }(reactor));
  EXPECT_THROW(reactor.run([](Reactor& on) -> Task<> { co_await on.sleep(5s); }(reactor)),
               std::runtime_error);
}

TEST_P(Coroutines, AFailureThatNobodyRanIntoIsReported) {
  {
    Reactor mine{GetParam()};
    mine.spawn([]() -> Task<> {
      throw std::runtime_error{"too late"};
      co_return;
    }());
  }
  EXPECT_THAT(reports.take(), testing::ElementsAre(HasSubstr("too late")));
}

TEST_P(Coroutines, APeerThatHangsUpEndsAReceive) {
  reactor.spawn(server.disconnect(5s));
  const Buffer room = client.buffer(64);
  const auto status =
      reactor.run([](AsyncConnection& conn, const Buffer& into) -> Task<ibv_wc_status> {
        const Completion done = co_await conn.recv(into, 5s);
        co_return done.status;
      }(client, room));
  EXPECT_EQ(status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(Coroutines, BothSayGoodbye) {
  reactor.run(reactor.when_all(both(server.disconnect(5s), client.disconnect(5s))));
}

TEST_P(Coroutines, ADestroyedFrameLeavesNothingInFlight) {
  {
    Task<> waiting = receive(client, {});
    waiting.start();
  }  // Quiet: the checks would report its buffer
  EXPECT_EQ(client.connection().qp().query().qp_state, IBV_QPS_ERR);
}

TEST_P(Coroutines, AConnectionThatGoesAwayResumesItsWaiters) {
  std::optional<AsyncConnection> mine{std::move(client)};
  const Buffer room = mine->buffer(64);
  const auto status = reactor.run([](Reactor& on, std::optional<AsyncConnection>& conn,
                                     const Buffer& into) -> Task<ibv_wc_status> {
    on.spawn([](Reactor& r, std::optional<AsyncConnection>& gone) -> Task<> {
      co_await r.sleep(10ms);
      gone.reset();
    }(on, conn));
    const Completion done = co_await conn->recv(into);
    co_return done.status;
  }(reactor, mine, room));
  EXPECT_EQ(status, IBV_WC_WR_FLUSH_ERR);
  client = AsyncConnection{reactor, std::move(connect_ends().client)};
}

TEST_P(Coroutines, AWriteOrReadBeyondTheRemoteBufferIsRefusedHere) {
  const Buffer target = server.buffer(64, Access::remote), near = client.buffer(128);
  const RemoteBuffer half = target.remote().slice(0, 32);
  EXPECT_THROW(static_cast<void>(client.write(near.slice(0, 33), half)), std::out_of_range);
  EXPECT_THROW(static_cast<void>(client.read(near.slice(0, 33), half)), std::out_of_range);
}

Task<> accept_and_answer(Reactor& reactor, Listener& listener) {
  co_await reactor.readable(listener.fd(), 20s);
  auto request = listener.next(0s);
  AsyncConnection conn = co_await AsyncConnection::accept(reactor, request.value(), 20s);
  co_await conn.send_value(42, 20s);
  co_await conn.disconnect(20s);
}

TEST_P(Coroutines, AnAcceptWaitsWhileOthersRun) {
  Listener listener{SocketAddress::of(kHost, 0)};
  together([&] { reactor.run(accept_and_answer(reactor, listener)); },
           [port = listener.port()] {
             Connection conn = Connection::connect(kHost, port);
             EXPECT_EQ(conn.recv_value<int>(), 42);
             conn.disconnect();
           });
}

TEST_P(Coroutines, AnAcceptOfSomebodyWhoLeftIsGivenUp) {
  Listener listener{SocketAddress::of(kHost, 0)};
  std::jthread knocks{[port = listener.port()] {  // doesn't wait for the answer
    ConnectionOptions options;
    options.timeout = 50ms;
    EXPECT_THROW(static_cast<void>(Connection::connect(kHost, port, options)), TimedOut);
  }};
  auto request = listener.next(5s);
  knocks.join();
  EXPECT_THROW(reactor.run(AsyncConnection::accept(reactor, request.value(), 200ms)), Error);
}

TEST_P(Coroutines, AReactorMayGoBeforeItsConnections) {
  std::optional<AsyncConnection> mine;
  std::optional<Task<>> held;
  {
    Reactor gone{GetParam()};
    mine.emplace(gone, connect_ends().client);
    held = receive(*mine, 10s);
    held->start();
  }  // Quiet: what was in flight is given up, its memory is free
  EXPECT_EQ(mine->connection().qp().query().qp_state, IBV_QPS_ERR);
  const Buffer room = mine->buffer(64);
  EXPECT_THAT(message_of<Error>([&] { static_cast<void>(mine->recv(room)); }),
              HasSubstr("its reactor is gone"));
  mine.reset();
  held.reset();
}

TEST_P(Coroutines, APostThatIsRefusedThrows) {
  const Buffer near = client.buffer(8), target = server.buffer(64, Access::remote_write);
  const std::vector<Slice> tooMany(100, near.slice());
  EXPECT_THROW(reactor.run([](AsyncConnection& conn, const std::vector<Slice>& list,
                              RemoteBuffer to) -> Task<> {
    const Completion done = co_await conn.perform(Write{std::span{list}, to});
    done.check();
  }(client, tooMany, target.remote())),
               Error);
}

INSTANTIATE_TEST_SUITE_P(Modes, Coroutines,
                         testing::Values(Reactor::Mode::channel, Reactor::Mode::poll),
                         [](const auto& mode) {
                           return mode.param == Reactor::Mode::channel ? "channel" : "poll";
                         });

}  // namespace
}  // namespace rdma::test

#endif  // __cpp_impl_coroutine
