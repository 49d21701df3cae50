// NicThread with real descriptors, a real thread, and work that counts. progress_sim_test.cc tests
// when the thread does what; these tests check that it hears what it is told.

#include "host/progress/nic_thread.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "host/clock.h"

namespace verbena::host {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongEnough = 30s;  // for a busy machine; no test waits for it to pass

/// The thread runs until the process ends, so this is never destroyed.
class Bench final : NicThread::Work {
 public:
  static Bench& make() {
    auto* const bench = new Bench;
    EXPECT_TRUE(bench->thread.start({.data = {bench->data_fd}, .control = {bench->control_fd}}));
    return *bench;
  }

  /// True after some round of work. The condition is asked under the lock.
  template <typename F>
  [[nodiscard]] bool eventually(F&& condition) {
    std::unique_lock lock{mutex_};
    return round_done_.wait_for(lock, kLongEnough, condition);
  }
  [[nodiscard]] int rounds_so_far() {
    const std::lock_guard lock{mutex_};
    return rounds;
  }
  void set_deadline(Instant deadline) {
    const std::lock_guard lock{mutex_};
    deadline_ = deadline;
  }

  const int data_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const int control_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  NicThread thread{*this};
  std::atomic<bool> too_late{false};  // a poller was faster
  // Read by eventually()'s conditions only.
  int rounds = 0;
  int packets = 0;
  int messages = 0;  // on the control descriptor

 private:
  Outcome work(bool control) override {
    const std::lock_guard lock{mutex_};
    eventfd_t count = 0;
    const bool useful = !too_late && eventfd_read(data_fd, &count) == 0;
    packets += static_cast<int>(count);
    if (control && eventfd_read(control_fd, &count) == 0) messages += static_cast<int>(count);
    ++rounds;
    round_done_.notify_all();
    return {.deadline = std::exchange(deadline_, kNever), .useful = useful};
  }

  std::mutex mutex_;
  std::condition_variable round_done_;
  Instant deadline_ = kNever;  // of the round after the next one
};

/// Polls until the thread has stepped aside. Its rounds must find no data, though there is some: as
/// if a poller had been faster each time.
bool outrun(NicThread& thread, int data_fd) {
  const Instant end = now() + kLongEnough;
  eventfd_write(data_fd, 1);
  while (!thread.will_look() && now() < end) thread.polled(now(), true);
  eventfd_t count = 0;
  eventfd_read(data_fd, &count);
  return now() < end;
}
bool outrun(Bench& bench) {
  bench.too_late = true;
  const bool done = outrun(bench.thread, bench.data_fd);
  bench.too_late = false;
  return done;
}

TEST(NicThreadTest, WorksWhenItStartsAndWhenDataComes) {
  Bench& bench = Bench::make();
  EXPECT_TRUE(bench.eventually([&] { return bench.rounds > 0; }));
  eventfd_write(bench.data_fd, 3);
  EXPECT_TRUE(bench.eventually([&] { return bench.packets == 3; }));
}

TEST(NicThreadTest, WatchesFurtherDescriptorsForData) {
  Bench& bench = Bench::make();
  const int further = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ASSERT_TRUE(bench.thread.watch_data(further));
  const int before = bench.rounds_so_far();
  eventfd_write(further, 1);
  EXPECT_TRUE(bench.eventually([&] { return bench.rounds > before + 1; }));
  ::close(further);
}

TEST(NicThreadTest, SaysThatControlIsReadable) {
  Bench& bench = Bench::make();
  eventfd_write(bench.control_fd, 1);
  EXPECT_TRUE(bench.eventually([&] { return bench.messages == 1; }));
}

TEST(NicThreadTest, IsWokenForADeadlineOfAnotherThread) {
  Bench& bench = Bench::make();
  EXPECT_TRUE(bench.eventually([&] { return bench.rounds > 0; }));
  for (int i = 0; i < 100; ++i) {
    const int before = bench.rounds_so_far();
    bench.thread.wake_by(now());
    ASSERT_TRUE(bench.eventually([&] { return bench.rounds > before; })) << i;
  }
}

TEST(NicThreadTest, WorksAgainAtTheDeadlineOfARound) {
  Bench& bench = Bench::make();
  EXPECT_TRUE(bench.eventually([&] { return bench.rounds > 0; }));
  const int before = bench.rounds_so_far();
  const Instant deadline = now() + 2ms;
  bench.set_deadline(deadline);
  bench.thread.wake_by(now());
  EXPECT_TRUE(bench.eventually([&] { return bench.rounds >= before + 2; }));
  EXPECT_GE(now(), deadline);
}

TEST(NicThreadTest, StepsAsideForAPollerAndComesBackWhenItSleeps) {
  Bench& bench = Bench::make();
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(outrun(bench));
    bench.thread.return_to_duty();
    eventfd_write(bench.data_fd, 1);
    EXPECT_TRUE(bench.eventually([&] { return bench.packets == i; }));
  }
}

TEST(NicThreadTest, ComesBackByItselfWhenNobodyPolls) {
  Bench& bench = Bench::make();
  ASSERT_TRUE(outrun(bench));
  eventfd_write(bench.data_fd, 1);
  EXPECT_TRUE(bench.eventually([&] { return bench.packets == 1; }));
}

TEST(NicThreadTest, ServesControlWhileAside) {
  Bench& bench = Bench::make();
  ASSERT_TRUE(outrun(bench));
  eventfd_write(bench.control_fd, 1);
  EXPECT_TRUE(bench.eventually([&] { return bench.messages == 1; }));
}

/// Reads a plain variable once it is told that another thread was told that it will look.
class Reader final : public NicThread::Work {
 public:
  Outcome work(bool) override {
    if (told.load(std::memory_order_relaxed)) seen.store(value, std::memory_order_relaxed);
    return {.deadline = kNever};
  }
  int value = 0;
  std::atomic<bool> told{false};
  std::atomic<int> seen{0};
};

TEST(NicThreadTest, SeesWhatWasWrittenBeforeItSaidThatItWillLook) {
  // ThreadSanitizer checks that nothing but will_look() is needed for it.
  const int data_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  auto& reader = *new Reader;
  auto& thread = *new NicThread{reader};
  ASSERT_TRUE(thread.start({.data = {data_fd}}));
  reader.value = 42;
  ASSERT_TRUE(outrun(thread, data_fd));
  reader.told.store(true, std::memory_order_relaxed);
  const Instant end = now() + kLongEnough;
  while (reader.seen.load(std::memory_order_relaxed) == 0 && now() < end) std::this_thread::yield();
  EXPECT_EQ(reader.seen.load(std::memory_order_relaxed), 42);
}

}  // namespace
}  // namespace verbena::host
