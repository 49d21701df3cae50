// Tasks without a reactor.
#include <gtest/gtest.h>
#include <rdma++/task.h>

#include <memory>
#include <stdexcept>

namespace rdma {
namespace {

#ifdef __cpp_impl_coroutine

Task<int> number(int n) { co_return n; }
Task<int> sum(int n) {
  int total = 0;
  for (int i = 1; i <= n; ++i) total += co_await number(i);
  co_return total;
}
Task<> fails() {
  co_await number(1);
  throw std::runtime_error{"inside"};
}

TEST(Task, RunsWhenAwaitedAndGivesItsResult) {
  Task<int> task = sum(10);
  EXPECT_FALSE(task.done());
  task.start();
  ASSERT_TRUE(task.done());
  EXPECT_EQ(task.result(), 55);
}

// Symmetric transfer: the stack must not grow with each await.
TEST(Task, ManyAwaitsNeedNoStack) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "with sanitizers g++ turns no call into a jump, so each await needs some";
#endif
  Task<int> task = sum(60'000);
  task.start();
  EXPECT_EQ(task.result(), 1'800'030'000);
}

TEST(Task, ExceptionsReachWhoeverAwaits) {
  bool caught = false;
  Task<> task = [](bool& seen) -> Task<> {
    try {
      co_await fails();
    } catch (const std::runtime_error&) {
      seen = true;
      throw;
    }
  }(caught);
  task.start();
  EXPECT_TRUE(caught);
  EXPECT_THROW(task.result(), std::runtime_error);
}

TEST(Task, ResultsMayBeMoveOnly) {
  Task<std::unique_ptr<int>> task = []() -> Task<std::unique_ptr<int>> {
    co_return std::make_unique<int>(3);
  }();
  task.start();
  EXPECT_EQ(*task.result(), 3);
}

TEST(Task, AFrameThatNeverRanIsDestroyed) {
  const auto watched = std::make_shared<int>(1);
  {
    const Task<> never = [](std::shared_ptr<int>) -> Task<> { co_return; }(watched);
    EXPECT_EQ(watched.use_count(), 2);
  }
  EXPECT_EQ(watched.use_count(), 1);
}

#else

TEST(Task, NeedsCoroutines) { GTEST_SKIP() << "this compiler has no C++20 coroutines"; }

#endif

}  // namespace
}  // namespace rdma
