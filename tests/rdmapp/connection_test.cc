// Connections by rdma_cm: how they begin, what they carry, how they end.
#include <semaphore>

#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Connections : public Quiet {};

struct Greeting {
  std::uint32_t number;
  char text[20];
};

TEST_F(Connections, TheWholeFlow) {
  Ends ends = connect_ends();
  together(
      [&] {
        const Buffer target = ends.server.buffer(4096, Access::remote_write | Access::remote_read);
        ends.server.send_value(target.remote());
        ends.server.barrier();
        EXPECT_EQ(target.text(), "written by the client");
      },
      [&] {
        const auto remote = ends.client.recv_value<RemoteBuffer>();
        Buffer source = ends.client.buffer(64), back = ends.client.buffer(64);
        source.set_text("written by the client");
        EXPECT_TRUE(ends.client.write(source, remote).ok());
        ends.client.read(back, remote);
        EXPECT_EQ(back.text(), source.text());
        ends.client.barrier();
      });
}

TEST_F(Connections, PrivateDataGoesBothWays) {
  Listener listener{SocketAddress::of(kHost, 0)};
  together(
      [&] {
        auto request = listener.next(5s);
        ASSERT_TRUE(request);
        EXPECT_EQ(request->private_value<Greeting>().number, 7u);
        EXPECT_STREQ(request->private_value<Greeting>().text, "from the client");
        EXPECT_EQ(request->context().name(), kDevice);
        ConnectionOptions options;
        Connection conn = request->accept(options.offer(Greeting{8, "from the server"}));
        EXPECT_EQ(conn.private_value<Greeting>().number, 7u);
        conn.barrier();
      },
      [&] {
        ConnectionOptions options;
        Connection conn = Connection::connect(kHost, listener.port(),
                                              options.offer(Greeting{7, "from the client"}));
        EXPECT_STREQ(conn.private_value<Greeting>().text, "from the server");
        struct Long {
          char bytes[250];
        };
        EXPECT_THAT(message_of<Error>([&] { (void)conn.private_value<Long>(); }),
                    HasSubstr("wanted are 250"));
        conn.barrier();
      });
}

TEST_F(Connections, PrivateDataThatDoesNotFitIsRefusedHere) {
  Listener listener{SocketAddress::of(kHost, 0)};
  ConnectionOptions options;
  options.private_data.resize(57);
  EXPECT_THAT(
      message_of<Error>([&] { (void)Connection::connect(kHost, listener.port(), options); }),
      AllOf(HasSubstr("57 bytes"), HasSubstr("room for 56")));
}

TEST_F(Connections, PrivateDataThatDoesNotFitTheAnswerNamesTheAnswer) {
  ConnectionOptions answer;
  answer.private_data.resize(197);
  EXPECT_THAT(message_of<Error>([&] {
                Listener listener{SocketAddress::of(kHost, 0)};
                std::jthread knocks{[port = listener.port()] {
                  EXPECT_THROW(static_cast<void>(Connection::connect(kHost, port)), Rejected);
                }};
                (void)listener.accept(answer);
              }),
              AllOf(HasSubstr("rdma_accept"), HasSubstr("197 bytes"), HasSubstr("room for 196")));
}

/// Takes every descriptor there is until it is destroyed.
class NoDescriptors {
 public:
  NoDescriptors() {
    for (int fd = dup(0); fd >= 0; fd = dup(0)) fds_.push_back(fd);
    EXPECT_EQ(errno, EMFILE);
  }
  ~NoDescriptors() {
    for (const int fd : fds_) close(fd);
  }

 private:
  std::vector<int> fds_;
};

TEST_F(Connections, ARequestThatFindsNoDescriptorLeftIsRejected) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer that comes with it needs descriptors to look at objects";
#endif
  Listener listener{SocketAddress::of(kHost, 0)};
  std::jthread knocks{[port = listener.port()] {
    EXPECT_THROW(static_cast<void>(Connection::connect(kHost, port)), Rejected);
  }};
  pollfd knock{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&knock, 1, 5000), 1);
  const NoDescriptors none;
  EXPECT_THAT(message_of<Error>([&] { (void)listener.next(0s); }),
              HasSubstr("rdma_create_event_channel"));
}

TEST_F(Connections, AnotherThreadMayEndAWait) {
  Ends ends = connect_ends();
  std::jthread other{[&] { ends.client.qp().to_error(); }};
  const Buffer room = ends.client.buffer(64);
  EXPECT_THROW(ends.client.recv(room, 5s), Error);
}

TEST_F(Connections, ARejectionTellsWhy) {
  Listener listener{SocketAddress::of(kHost, 0)};
  together(
      [&] {
        auto request = listener.next(5s);
        ASSERT_TRUE(request);
        request->reject(std::as_bytes(std::span{"full house"}));
        EXPECT_THAT(message_of<Error>([&] { (void)request->accept(); }),
                    HasSubstr("answered already"));
      },
      [&] {
        try {
          (void)Connection::connect(kHost, listener.port());
          FAIL() << "accepted";
        } catch (const Rejected& rejected) {
          EXPECT_EQ(rejected.reason(), 28);
          EXPECT_STREQ(reinterpret_cast<const char*>(rejected.private_data().data()), "full house");
          EXPECT_THAT(rejected.what(), HasSubstr("the peer's program said no"));
        }
      });
}

TEST_F(Connections, ARequestThatIsDroppedIsARejection) {
  Listener listener{SocketAddress::of(kHost, 0)};
  together([&] { EXPECT_TRUE(listener.next(5s)); },
           [&] { EXPECT_THROW((void)Connection::connect(kHost, listener.port()), Rejected); });
}

TEST_F(Connections, NobodyListens) {
  std::uint16_t port;
  {
    const Listener gone{SocketAddress::of(kHost, 0)};
    port = gone.port();
  }
  EXPECT_THAT(message_of<Rejected>([&] { (void)Connection::connect(kHost, port); }),
              AllOf(HasSubstr(concat("to 127.0.0.1:", port)), HasSubstr("nobody listens")));
}

/// A client that is faster than its server, which is about to listen, waits for it.
TEST_F(Connections, AClientMayComeWhileTheListenerIsOpened) {
  constexpr int kRounds = 100;
  const std::uint16_t port = Listener{SocketAddress::of(kHost, 0)}.port();
  std::binary_semaphore begin{0};
  together(
      [&] {
        for (int i = 0; i < kRounds; ++i) {
          begin.release();
          Listener listener{SocketAddress::of(kHost, port)};
          const Connection accepted = listener.accept({.timeout = 10s});
        }
      },
      [&] {
        for (int i = 0; i < kRounds; ++i) {
          begin.acquire();
          (void)Connection::connect(kHost, port, {.timeout = 10s, .linger = 0ms});
        }
      });
}

TEST_F(Connections, NobodyComesOrAnswers) {
  Listener listener{SocketAddress::of(kHost, 0)};
  EXPECT_FALSE(listener.next(20ms));
  EXPECT_THAT(message_of<TimedOut>([&] { (void)listener.accept({.timeout = 20ms}); }),
              HasSubstr("nobody connected"));
  // The request waits in the backlog; nobody looks.
  EXPECT_THROW((void)Connection::connect(kHost, listener.port(), {.timeout = 100ms}), TimedOut);
}

TEST_F(Connections, AHostThatIsNone) {
  EXPECT_THAT(message_of<Error>([] { (void)Connection::connect("host.invalid", 1); }),
              HasSubstr("host \"host.invalid\""));
}

TEST_F(Connections, AnyAddressAndADeviceToListenOn) {
  Listener any{0};
  together([&] { (void)any.accept(); },
           [&] { (void)Connection::connect(kHost, any.port(), {.device = kDevice}); });
  Listener one = Listener::on_device(kDevice, 0);
  together([&] { (void)one.accept(); }, [&] { (void)Connection::connect(kHost, one.port()); });
}

TEST_F(Connections, AtomicsOnAPeersWord) {
  Ends ends = connect_ends();
  const Buffer counter = ends.server.buffer(8, Access::remote_atomic);
  EXPECT_EQ(ends.client.fetch_add(counter.remote(), 5), 0u);
  EXPECT_EQ(ends.client.fetch_add(counter.remote(), 5), 5u);
  EXPECT_EQ(ends.client.compare_swap(counter.remote(), 10, 1), 10u);
  EXPECT_EQ(ends.client.compare_swap(counter.remote(), 10, 2), 1u);
  EXPECT_EQ(counter.as<std::uint64_t>()[0], 1u);
}

TEST_F(Connections, ValuesOfAnotherSizeAreNoticed) {
  Ends ends = connect_ends();
  together([&] { ends.server.send_value(std::uint16_t{1}); },
           [&] {
             EXPECT_THAT(message_of<Error>([&] { (void)ends.client.recv_value<std::uint64_t>(); }),
                         HasSubstr("the peer sent 2 bytes, wanted are 8"));
           });
}

TEST_F(Connections, ABarrierNoticesAMessageInstead) {
  Ends ends = connect_ends();
  ends.server.post(Recv{}.id(1)).check();  // for the client's side of the barrier
  together([&] { ends.server.send_value(1); },
           [&] {
             EXPECT_THAT(message_of<Error>([&] { ends.client.barrier(); }),
                         HasSubstr("a message of 4 bytes came instead"));
           });
}

TEST_F(Connections, RequestsOfTheProgramAreKeptForIt) {
  Ends ends = connect_ends();
  Buffer near = ends.client.buffer(64), far = ends.server.buffer(64, Access::remote_write);
  ends.client.post(Write{near, far.remote()}.id(1).signaled()).check();
  ends.client.post(Write{near, far.remote()}.id(2).signaled()).check();
  ends.client.write(near, far.remote());  // meets the two on its way
  EXPECT_EQ(ends.client.wait().id(), 1u);
  EXPECT_EQ(ends.client.wait().id(), 2u);
  EXPECT_FALSE(ends.client.wait(5ms));
}

TEST_F(Connections, PerformGivesBackTheStatusAndTheId) {
  Ends ends = connect_ends();
  Buffer near = ends.client.buffer(64), far = ends.server.buffer(64);  // no remote rights
  const Completion done = ends.client.perform(Write{near, far.remote()}.id(9));
  EXPECT_EQ(done.id(), 9u);
  EXPECT_EQ(done.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_THROW(ends.client.write(near, far.remote()), CompletionError);
}

TEST_F(Connections, AWriteBeyondTheRemoteBufferIsRefusedHere) {
  Ends ends = connect_ends();
  const Buffer near = ends.client.buffer(65), far = ends.server.buffer(64, Access::remote_write);
  EXPECT_THROW(ends.client.write(near, far.remote()), std::out_of_range);
  EXPECT_TRUE(ends.client.connected());
}

TEST_F(Connections, PrepareComesBeforeThePeerCanSend) {
  std::optional<Buffer> room;
  const ConnectionOptions server{.prepare = [&](Connection& conn) {
    room = conn.buffer(64);
    conn.post(Recv{*room}.id(5)).check();
  }};
  Ends ends = connect_ends({.rnr_retry = 0}, server);
  Buffer data = ends.client.buffer(64);
  data.set_text("no RNR");
  ends.client.send(data);  // with rnr_retry 0 it would fail if no receive were there
  EXPECT_EQ(ends.server.wait().id(), 5u);
  EXPECT_EQ(room->text(), "no RNR");
}

TEST_F(Connections, SeveralShareADomainAndAReceiveQueue) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  Buffer memory{pd, 4096};  // must outlive the receives that wait there
  const SharedReceiveQueue srq{pd, 32};
  CompletionQueue receives{context, 64};
  for (std::uint64_t i = 0; i < 4; ++i) srq.post(Recv{memory.slice(64 * i, 64)}.id(i)).check();
  const ConnectionOptions server{.pd = &pd, .srq = &srq, .recv_cq = &receives};
  Ends first = connect_ends({}, server), second = connect_ends({}, server);
  first.client.send_value(1);
  second.client.send_value(2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto done = receives.wait(5s);
    ASSERT_TRUE(done && done->ok());
    EXPECT_EQ(done->id(), i);
    EXPECT_EQ(done->qp_num, (i == 0 ? first : second).server.qp().number());
  }
  EXPECT_THAT(message_of<Error>([&] { (void)first.server.recv_value<int>(); }),
              HasSubstr("recv_cq"));
}

TEST_F(Connections, ADomainOfAnotherDeviceIsRefused) {
  std::optional<Device> other;
  for (const Device& device : Device::all()) {
    if (device.name() != kDevice) other = device;
  }
  if (!other) GTEST_SKIP() << "this machine has one device only";
  const ProtectionDomain pd{Context{*other}};
  const Listener listener{SocketAddress::of(kHost, 0)};
  EXPECT_THAT(
      message_of<Error>([&] { (void)Connection::connect(kHost, listener.port(), {.pd = &pd}); }),
      AllOf(HasSubstr("goes over device vb_lo"), HasSubstr(other->name())));
}

TEST_F(Connections, APeerThatHangsUpEndsTheWait) {
  Ends ends = connect_ends();
  const Buffer room = ends.client.buffer(64);
  together([&] { ends.server.disconnect(5s); },
           [&] { EXPECT_THROW(ends.client.recv(room, 10s), Disconnected); });
  EXPECT_FALSE(ends.client.connected());
  EXPECT_FALSE(ends.server.connected());
  EXPECT_THROW(ends.client.send_value(1), Disconnected);
}

TEST_F(Connections, AfterTheEndNothingIsWaitedForLong) {
  Ends ends = connect_ends();  // its timeout is 30 s
  const Buffer room = ends.client.buffer(64);
  ends.client.post(Recv{room}.id(1)).check();
  together([&] { ends.server.disconnect(5s); },
           [&] {
             EXPECT_EQ(ends.client.wait().status, IBV_WC_WR_FLUSH_ERR);
             const auto before = Deadline::Clock::now();
             EXPECT_THROW((void)ends.client.wait(), Disconnected);
             EXPECT_LT(Deadline::Clock::now() - before, 10s);
           });
}

TEST_F(Connections, ADestructorHangsUp) {
  std::optional<Ends> ends = connect_ends();
  const Buffer room = ends->client.buffer(64);
  together([&] { const Connection gone = std::move(ends->server); },
           [&] { EXPECT_THROW(ends->client.recv(room, 10s), Disconnected); });
}

TEST_F(Connections, BothHangUpAtOnce) {
  for (int i = 0; i < 20; ++i) {
    Ends ends = connect_ends();
    together([&] { ends.server.disconnect(5s); }, [&] { ends.client.disconnect(5s); });
  }
}

TEST_F(Connections, ALateMessageGivesTheConnectionUpAndFreesTheMemory) {
  Ends ends = connect_ends();
  {
    const Buffer room = ends.client.buffer(64);
    EXPECT_THAT(message_of<TimedOut>([&] { ends.client.recv(room, 20ms); }),
                HasSubstr("in the error state now"));
    EXPECT_EQ(ends.client.qp().query().qp_state, IBV_QPS_ERR);
  }  // the checks would report memory that is still in flight
}

TEST_F(Connections, WaitingByHandGivesNothingUp) {
  Ends ends = connect_ends();
  const Buffer room = ends.client.buffer(64);
  ends.client.post(Recv{room}.id(1)).check();
  EXPECT_FALSE(ends.client.wait(10ms));
  ends.server.send_value(3);
  EXPECT_EQ(ends.client.wait().id(), 1u);
}

TEST_F(Connections, TcpIsTheOtherWayToMeet) {
  TcpListener listener{0};
  Pair left, right;  // two contexts; only one queue pair of each is used
  QueuePair a = QueuePair::rc(left.pd).cq(left.cq).create();
  QueuePair b = QueuePair::rc(right.pd).cq(right.cq).create();
  together(
      [&] {
        TcpBootstrap tcp = listener.accept();
        ConnInfo ours = b.info();
        b.connect(tcp.exchange(ours.offer(right.far.remote())));
        tcp.barrier();
        tcp.barrier();
        EXPECT_EQ(right.far.text(), "met over TCP");
      },
      [&] {
        TcpBootstrap tcp = TcpBootstrap::connect(kHost, listener.port());
        const ConnInfo theirs = tcp.exchange(a.info());
        a.connect(theirs);
        tcp.barrier();
        left.near.set_text("met over TCP");
        a.post(Write{left.near, theirs.remote()}.signaled().id(1)).check();
        EXPECT_TRUE(left.next_of(1).ok());
        tcp.barrier();
      });
}

TEST_F(Connections, ABootstrapNoticesStrangersAndSilence) {
  TcpListener listener{0};
  together(
      [&] {
        TcpBootstrap tcp = listener.accept(200ms);
        EXPECT_THAT(message_of<Error>([&] { (void)tcp.exchange({}); }), HasSubstr("no ConnInfo"));
        EXPECT_THROW((void)tcp.recv_value<int>(), TimedOut);
      },
      [&] {
        TcpBootstrap tcp = TcpBootstrap::connect(kHost, listener.port());
        const std::array<std::byte, ConnInfo::kWireSize> nonsense{};
        tcp.send_bytes(nonsense);
        (void)tcp.recv_value<ConnInfo::Wire>();
        EXPECT_THAT(message_of<Error>([&] { (void)tcp.recv_value<int>(); }),
                    HasSubstr("the peer closed"));
      });
  EXPECT_THROW((void)listener.accept(10ms), TimedOut);
}

}  // namespace
}  // namespace rdma::test
