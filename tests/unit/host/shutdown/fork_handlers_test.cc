#include "host/shutdown/fork_handlers.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace verbena::host {
namespace {

std::string fork_log;

template <char Name>
constexpr ForkHandler logging() {
  return {.prepare =
              [] {
                fork_log += {'<', Name};
              },
          .parent =
              [] {
                fork_log += {Name, '>'};
              },
          .child =
              [] {
                fork_log += {Name, '!'};
              }};
}
constexpr ForkHandler kA = logging<'a'>();
constexpr ForkHandler kB = logging<'b'>();
constexpr ForkHandler kC = logging<'c'>();

TEST(ForkHandlersTest, PrepareRunsOutermostFirstAndTheRestInReverse) {
  ForkHandlers handlers;
  handlers.add(ForkRank::gid_tables, kC);  // the order of adding doesn't count
  handlers.add(ForkRank::rdma_cm, kA);
  handlers.add(ForkRank::nic, kB);
  fork_log.clear();
  const auto prepared = handlers.prepare();
  EXPECT_EQ(fork_log, "<a<b<c");
  fork_log.clear();
  ForkHandlers::parent(prepared);
  EXPECT_EQ(fork_log, "c>b>a>");
  fork_log.clear();
  ForkHandlers::child(prepared);
  EXPECT_EQ(fork_log, "c!b!a!");
}

TEST(ForkHandlersTest, TheFirstHandlerOfARankStays) {
  ForkHandlers handlers;
  handlers.add(ForkRank::nic, kA);
  handlers.add(ForkRank::nic, kA);
  handlers.add(ForkRank::nic, kB);
  fork_log.clear();
  static_cast<void>(handlers.prepare());
  EXPECT_EQ(fork_log, "<a");
}

TEST(ForkHandlersTest, AHandlerThatIsAddedDuringAForkHasNoPartInIt) {
  ForkHandlers handlers;
  handlers.add(ForkRank::nic, kB);
  fork_log.clear();
  const auto prepared = handlers.prepare();
  handlers.add(ForkRank::rdma_cm, kA);
  ForkHandlers::parent(prepared);
  EXPECT_EQ(fork_log, "<bb>");
}

// The ranks of front/, which this program doesn't contain.

std::mutex outer;
std::mutex inner;
int owner_of_state = 1;  // 1: the parent's; 0: abandoned

constexpr ForkHandler kOuter{.prepare = [] { outer.lock(); },
                             .parent = [] { outer.unlock(); },
                             .child =
                                 [] {
                                   owner_of_state = 0;
                                   outer.unlock();
                                 }};
constexpr ForkHandler kInner{.prepare = [] { inner.lock(); },
                             .parent = [] { inner.unlock(); },
                             .child = [] { inner.unlock(); }};

/// What a child finds: 0 if it may go on.
int look_in_child() {
  const pid_t child = fork();
  if (child == 0) {
    const bool outer_free = outer.try_lock();
    const bool inner_free = inner.try_lock();
    _exit((outer_free ? 0 : 1) + (inner_free ? 0 : 2) + (owner_of_state == 0 ? 0 : 4));
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Another thread takes both locks, in the lock order, all the time.
TEST(ForkHandlersTest, AChildFindsTheLocksFreeAndTheStateAbandoned) {
  at_fork(ForkRank::verbs_lists, kInner);
  at_fork(ForkRank::rdma_cm, kOuter);
  std::atomic<bool> stop{false};
  std::thread busy{[&] {
    while (!stop) {
      const std::lock_guard first{outer};
      const std::lock_guard second{inner};
    }
  }};
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look_in_child(), 0);
  stop = true;
  busy.join();
  EXPECT_EQ(owner_of_state, 1) << "in the parent";
  EXPECT_TRUE(outer.try_lock());
  outer.unlock();
}

}  // namespace
}  // namespace verbena::host
