#include "registry/roll_call.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/child_peer.h"

namespace verbena::registry::test {
namespace {

using namespace verbena::test;

/// nullptr: it wasn't there.
const Presence* find(const std::vector<Presence>& all, const ChildMember& child) {
  const auto found = std::ranges::find(all, child.slot(), &Presence::slot);
  return found != all.end() ? &*found : nullptr;
}

TEST(RollCall, EveryProcessAnswers) {
  const ChildMember first;
  const ChildMember second;
  const auto present = call_roll(5s);
  for (const ChildMember* child : {&first, &second}) {
    const Presence* p = find(present, *child);
    ASSERT_NE(p, nullptr);
    EXPECT_GT(p->pid, 0);
    EXPECT_TRUE(p->account.has_value());
  }
}

TEST(RollCall, WhoIsStoppedIsThereWithoutAWord) {
  const ChildMember stopped;
  const ChildMember running;
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

TEST(RollCall, QueuePairsComeInPartsWhenTheyAreAskedFor) {
  const ChildMember child;
  const auto totals = call_roll(5s);
  const Presence* p = find(totals, child);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->account, "a member");
  EXPECT_TRUE(p->parts.empty());
  const auto detailed = call_roll(5s, Detail::queue_pairs);
  p = find(detailed, child);
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p->account, "part 1");
  EXPECT_EQ(p->parts, (std::vector<std::string>{"part 2", "part 3"}));
}

TEST(RollCall, WhoIsKilledIsGone) {
  ChildMember child;
  child.kill();
  EXPECT_EQ(find(call_roll(5s), child), nullptr);
}

}  // namespace
}  // namespace verbena::registry::test
