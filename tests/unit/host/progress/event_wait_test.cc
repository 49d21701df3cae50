// ibv_get_cq_event, and polls on a busy machine, between two shards on a wire in memory; an eventfd
// plays the bell.

#include "host/progress/event_wait.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>

#include "host/clock.h"
#include "host/completion_queue.h"
#include "host/events/completion_channel.h"
#include "host/progress/nic_thread.h"
#include "system/fd.h"
#include "system/kernel_calls.h"
#include "tests/support/shard_node.h"

namespace verbena::host {
namespace {

class EventWaitTest : public testing::Test {
 protected:
  void SetUp() override {
    qp = &a.create_qp();
    QueuePair& peer = b.create_qp();
    a.connect(*qp, b, peer);
    b.connect(peer, a, *qp);
    ASSERT_TRUE(wait.set_bell(bell.get()).ok());
  }
  void ring() const {
    const std::uint64_t one = 1;
    ASSERT_EQ(kernel::write(bell.get(), &one, sizeof one), 8);
  }
  /// A WRITE whose completion event is asked for. Its acknowledgement comes with the next round.
  void write_and_arm() {
    a.cq.arm(false);
    a.write(*qp, b, 100, 1);
    a.shard->send_inline();
    b.turn();
  }
  /// True once the waiting thread reads the bell.
  void wait_until_asleep(const std::atomic<pid_t>& thread) const {
    while (!test::sleeps(thread.load())) std::this_thread::yield();
  }

  test::MemoryNetwork network;
  test::ShardNode a{network, 1};
  test::ShardNode b{network, 2};
  QueuePair* qp = nullptr;
  CompletionChannel& channel = *a.channel;
  Fd bell{::eventfd(0, EFD_CLOEXEC)};
  EventWait wait{*a.shard, a.thread()};
};

TEST_F(EventWaitTest, TakesWhatIsThere) {
  write_and_arm();
  a.turn();
  const auto event = wait.get(channel);
  ASSERT_TRUE(event);
  EXPECT_EQ(*event, &a.cq);
}

TEST_F(EventWaitTest, ReceivesBeforeItSleeps) {
  write_and_arm();
  const auto event = wait.get(channel);
  ASSERT_TRUE(event);
  EXPECT_EQ(*event, &a.cq);
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(channel.forget(a.cq), 1u);  // taken
}

TEST_F(EventWaitTest, AnotherThreadsEventWakesIt) {
  std::atomic<pid_t> id{0};
  std::thread sleeper{[&] {
    id = gettid();
    const auto event = wait.get(channel);
    ASSERT_TRUE(event);
    EXPECT_EQ(*event, &a.cq);
  }};
  wait_until_asleep(id);
  write_and_arm();
  a.turn();  // as the NIC thread would: it raises the event
  sleeper.join();
}

TEST_F(EventWaitTest, TheBellWakesItToReceive) {
  std::atomic<pid_t> id{0};
  std::thread sleeper{[&] {
    id = gettid();
    const auto event = wait.get(channel);
    ASSERT_TRUE(event);
    EXPECT_EQ(*event, &a.cq);
  }};
  wait_until_asleep(id);
  write_and_arm();
  ring();
  sleeper.join();
}

TEST_F(EventWaitTest, ABellForNothingIsNoEvent) {
  std::atomic<pid_t> id{0};
  std::atomic<bool> done{false};
  std::thread sleeper{[&] {
    id = gettid();
    static_cast<void>(wait.get(channel));
    done = true;
  }};
  for (int i = 0; i < 10; ++i) {
    wait_until_asleep(id);
    ring();
  }
  wait_until_asleep(id);
  EXPECT_FALSE(done);
  write_and_arm();
  ring();
  sleeper.join();
}

TEST_F(EventWaitTest, ASecondThreadSleepsOnItsChannel) {
  std::atomic<pid_t> first{0}, second{0};
  const std::unique_ptr<CompletionChannel> other{std::move(CompletionChannel::create()).value()};
  std::thread sleeper{[&] {
    first = gettid();
    EXPECT_TRUE(wait.get(channel).ok());
  }};
  wait_until_asleep(first);
  CompletionQueue elsewhere{64, other.get(), nullptr, {}};
  std::thread another{[&] {
    second = gettid();
    const auto event = wait.get(*other);
    ASSERT_TRUE(event);
    EXPECT_EQ(*event, &elsewhere);
  }};
  wait_until_asleep(second);
  other->raise(elsewhere);
  another.join();
  write_and_arm();
  ring();
  sleeper.join();
}

TEST_F(EventWaitTest, ASignalInterruptsIt) {
  struct sigaction handler {};
  handler.sa_handler = [](int) {};  // without SA_RESTART
  sigaction(SIGUSR1, &handler, nullptr);
  std::atomic<pid_t> id{0};
  std::thread sleeper{[&] {
    id = gettid();
    const auto event = wait.get(channel);
    EXPECT_EQ(event.ok() ? 0 : event.error().code, EINTR);
  }};
  wait_until_asleep(id);
  pthread_kill(sleeper.native_handle(), SIGUSR1);
  sleeper.join();
  EXPECT_TRUE(a.thread().relieve()) << "the bells are nobody's again";
}

TEST_F(EventWaitTest, ACancelledThreadLeavesNothingBehind) {
  std::atomic<pid_t> id{0};
  std::thread sleeper{[&] {
    id = gettid();
    static_cast<void>(wait.get(channel));
    ADD_FAILURE() << "not cancelled";
  }};
  wait_until_asleep(id);
  pthread_cancel(sleeper.native_handle());
  sleeper.join();
  EXPECT_TRUE(a.thread().relieve());
  write_and_arm();
  a.turn();
  EXPECT_TRUE(channel.get().ok());
}

TEST_F(EventWaitTest, AChannelThatDoesNotBlockIsNotWaitedFor) {
  ASSERT_EQ(kernel::fcntl(channel.fd(), F_SETFL, O_NONBLOCK), 0);
  const auto event = wait.get(channel);
  EXPECT_EQ(event.ok() ? 0 : event.error().code, EAGAIN);
}

// ---- rest()

constexpr std::size_t kBusy = 0;           // more threads want to run than there are cores
constexpr std::size_t kSpare = 1'000'000;  // never

class RestTest : public EventWaitTest {
 protected:
  static void set_bell(EventWait& w, int bell) { ASSERT_TRUE(w.set_bell(bell).ok()); }
  EventWait busy{*a.shard, a.thread(), kBusy};
  EventWait spare{*a.shard, a.thread(), kSpare};
  void SetUp() override {
    EventWaitTest::SetUp();
    set_bell(busy, bell.get());
    set_bell(spare, bell.get());
  }
};

TEST_F(RestTest, ReceivesBeforeItSleeps) {
  write_and_arm();
  busy.rest(now(), a.cq);
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
}

TEST_F(RestTest, OnAMachineWithASpareCoreItOnlyYields) {
  write_and_arm();
  spare.rest(now(), a.cq);
  EXPECT_TRUE(a.completed().empty());
  a.turn();
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
}

TEST_F(RestTest, EndsThoughNothingComes) {
  for (int i = 0; i < 10; ++i) busy.rest(now(), a.cq);
  EXPECT_TRUE(a.completed().empty());
  EXPECT_TRUE(a.thread().relieve()) << "the bells are nobody's again";
}

TEST_F(RestTest, ReceivesWhatComesWhileItSleeps) {
  std::vector<std::uint64_t> ids;
  std::thread resting{[&] {
    while (ids.empty()) {
      busy.rest(now(), a.cq);  // nobody else makes rounds
      ids = a.completed();
    }
  }};
  write_and_arm();
  ring();
  resting.join();
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{1}));
}

TEST_F(RestTest, LeavesTheRingsToAThreadThatWatchesThem) {
  std::atomic<pid_t> id{0};
  std::thread sleeper{[&] {
    id = gettid();
    const auto event = wait.get(channel);
    ASSERT_TRUE(event);
    EXPECT_EQ(*event, &a.cq);
  }};
  wait_until_asleep(id);
  write_and_arm();
  busy.rest(now(), a.cq);
  EXPECT_TRUE(a.completed().empty()) << "two threads watch";
  ring();
  sleeper.join();
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
}

TEST_F(RestTest, WithoutABellItOnlyYields) {
  EventWait without{*a.shard, a.thread(), kBusy};
  write_and_arm();
  without.rest(now(), a.cq);
  EXPECT_TRUE(a.completed().empty());
}

}  // namespace
}  // namespace verbena::host
