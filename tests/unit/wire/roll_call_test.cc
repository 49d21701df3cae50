#include "wire/roll_call.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "child_station.h"

namespace verbena::wire::test {
namespace {

/// nullptr: it wasn't there.
const Presence* find(const std::vector<Presence>& all, const ChildStation& child) {
  const auto found = std::ranges::find(all, child.slot(), &Presence::slot);
  return found != all.end() ? &*found : nullptr;
}

TEST(RollCall, EveryProcessAnswers) {
  const ChildStation first{loopback(1), {}};
  const ChildStation second{loopback(2), {}};
  const auto present = call_roll(5s);
  for (const ChildStation* child : {&first, &second}) {
    const Presence* p = find(present, *child);
    ASSERT_NE(p, nullptr);
    EXPECT_GT(p->pid, 0);
    EXPECT_TRUE(p->account.has_value());
  }
}

TEST(RollCall, WhoIsStoppedIsThereWithoutAWord) {
  const ChildStation stopped{loopback(1), {}};
  const ChildStation running{loopback(2), {}};
  stopped.stop();
  const auto before = monotonic_now();
  const auto present = call_roll(200ms);
  EXPECT_LT(monotonic_now() - before, 2s);
  const Presence* p = find(present, stopped);
  ASSERT_NE(p, nullptr);
  EXPECT_GT(p->pid, 0);
  EXPECT_FALSE(p->account.has_value());
  ASSERT_NE(find(present, running), nullptr);
}

TEST(RollCall, WhoIsKilledIsGone) {
  ChildStation child{loopback(1), {}};
  child.kill();
  EXPECT_EQ(find(call_roll(5s), child), nullptr);
}

}  // namespace
}  // namespace verbena::wire::test
