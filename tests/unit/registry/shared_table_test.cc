#include "registry/shared_table.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "registry/joining.h"
#include "registry/names.h"
#include "tests/support/child_peer.h"

namespace verbena::registry::test {
namespace {

using namespace verbena::test;

using SlotState = SharedTable::SlotState;

constexpr Instant kNow{1000h};

class SharedTableTest : public testing::Test {
 protected:
  SharedTable table = std::move(SharedTable::found()).value();
  const LocalAddress one{*IpAddress::parse("127.0.0.1"), 0};
  const LocalAddress two{*IpAddress::parse("::1"), 0};
};

TEST_F(SharedTableTest, RestsASlotWhoseProcessEnded) {
  EXPECT_EQ(table.state(5, kNow), SlotState::free);
  table.hold(5);
  EXPECT_EQ(table.state(5, kNow), SlotState::held);
  EXPECT_TRUE(table.release(5, kNow));
  EXPECT_FALSE(table.release(5, kNow)) << "known already";
  EXPECT_EQ(table.state(5, kNow), SlotState::resting);
  EXPECT_EQ(table.state(5, kNow + SharedTable::kRest - 1ns), SlotState::resting);
  EXPECT_EQ(table.state(5, kNow + SharedTable::kRest), SlotState::free);
}

TEST_F(SharedTableTest, ADamagedInstantDoesNotLockASlot) {
  table.hold(5);
  ASSERT_TRUE(table.release(5, kNow + 24h));
  EXPECT_EQ(table.state(5, kNow), SlotState::free);
}

TEST_F(SharedTableTest, TheDeathOfOneProcessDoesNotReleaseTheSlotOfTheNext) {
  EXPECT_EQ(table.tenancy(5), Tenancy::none);
  table.hold(5);
  const Tenancy first = table.tenancy(5);
  EXPECT_NE(first, Tenancy::none);
  table.hold(5);
  EXPECT_NE(table.tenancy(5), first);
  EXPECT_FALSE(table.release(5, first, kNow));
  EXPECT_FALSE(table.release(5, Tenancy::none, kNow));
  EXPECT_TRUE(table.held(5));
  EXPECT_TRUE(table.release(5, table.tenancy(5), kNow));
  EXPECT_EQ(table.tenancy(5), Tenancy::none);
}

TEST_F(SharedTableTest, WhoWasRefusedBeforeAProcessListenedCannotReleaseItsSlot) {
  table.hold(5);
  const Tenancy unheard = table.tenancy(5);
  table.hold_anew(5);
  EXPECT_FALSE(table.release(5, unheard, kNow));
  EXPECT_TRUE(table.held(5));
}

TEST_F(SharedTableTest, KeepsAColumnPerAddress) {
  const auto first = table.column_of(one);
  EXPECT_EQ(table.column_of(one), first);
  EXPECT_NE(table.column_of(two), first);
}

TEST_F(SharedTableTest, ALinkLocalAddressIsOnePerInterface) {
  const auto address = *IpAddress::parse("fe80::1");
  EXPECT_NE(table.column_of({address, 2}), table.column_of({address, 3}));
}

TEST_F(SharedTableTest, HasNoColumnForTheAddressThatIsTooMany) {
  for (std::uint8_t i = 0; i < SharedTable::kAddresses; ++i) {
    EXPECT_TRUE(table.column_of({IpAddress::v4({10, 0, 0, i}), 0}).has_value());
  }
  EXPECT_FALSE(table.column_of(one).has_value());
}

TEST_F(SharedTableTest, BelievesTheLatestRoundAndInItTheSmallestIndex) {
  const auto column = *table.column_of(one);
  EXPECT_TRUE(table.learn(column, 5, 3, 10));
  EXPECT_FALSE(table.learn(column, 5, 9, 10)) << "past the end, hashed to us";
  EXPECT_FALSE(table.learn(column, 5, 1, 9)) << "late";
  EXPECT_FALSE(table.learn(column, 5, 3, 11)) << "no news";
  EXPECT_TRUE(table.learn(column, 5, 1, 12));
  EXPECT_EQ(table.members(column), (std::vector<GroupMember>{{5, 1}}));
}

TEST_F(SharedTableTest, RoundsWrap) {
  const auto column = *table.column_of(one);
  EXPECT_TRUE(table.learn(column, 5, 3, 0xffff'ffff));
  EXPECT_TRUE(table.learn(column, 5, 4, 0));
}

TEST_F(SharedTableTest, TheGenerationChangesWithTheRules) {
  const auto column = *table.column_of(one);
  auto last = table.generation();
  const auto changed = [&] { return std::exchange(last, table.generation()) != last; };
  table.hold(5);
  table.learn(column, 5, 3, 1);
  EXPECT_TRUE(changed());
  table.learn(column, 5, 3, 2);
  EXPECT_FALSE(changed());
  table.release(5, kNow);
  EXPECT_TRUE(changed());
  EXPECT_TRUE(table.members(column).empty());
}

TEST_F(SharedTableTest, IsTheSameForAllThatMapIt) {
  auto other = SharedTable::map(Fd{::fcntl(table.fd(), F_DUPFD_CLOEXEC, 0)});
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->nonce(), table.nonce());
  table.hold(7);
  EXPECT_EQ(other->state(7, kNow), SlotState::held);
}

TEST_F(SharedTableTest, SurvivesAnyContents) {
  const auto size = static_cast<std::size_t>(::lseek(table.fd(), 0, SEEK_END));
  auto* bytes = static_cast<std::uint8_t*>(
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, table.fd(), 0));
  ASSERT_NE(bytes, MAP_FAILED);
  for (const int fill : {0xff, 0x01, 0x80}) {
    std::memset(bytes, fill, size);
    (void)table.column_of(one);
    for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) (void)table.state(slot, kNow);
    for (const auto& rule : table.members(3)) EXPECT_LT(rule.place, Qpn::kSlots);
    table.learn(3, 5, 3, 1);
    table.release(5, kNow);
  }
  ::munmap(bytes, size);
}

/// The contents are a table's, so that nothing but the seals can be wrong.
Fd copy_of(const SharedTable& table, int seals) {
  std::vector<char> bytes(static_cast<std::size_t>(::lseek(table.fd(), 0, SEEK_END)));
  const auto size = static_cast<ssize_t>(bytes.size());
  EXPECT_EQ(::pread(table.fd(), bytes.data(), bytes.size(), 0), size);
  Fd copy{::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  EXPECT_EQ(::pwrite(copy.get(), bytes.data(), bytes.size(), 0), size);
  EXPECT_EQ(::fcntl(copy.get(), F_ADD_SEALS, seals), 0);
  return copy;
}

TEST(SharedTableMap, RefusesWhatCouldShrink) {
  const auto table = SharedTable::found();
  EXPECT_TRUE(SharedTable::map(copy_of(*table, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)).ok());
  for (const int seals : {0, F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL}) {
    const auto mapped = SharedTable::map(copy_of(*table, seals));
    ASSERT_FALSE(mapped.ok()) << seals;
    EXPECT_EQ(mapped.error().code, EPROTO);
  }
}

TEST_F(SharedTableTest, SlotsAreTriedFreeOnesFirstThenTheLongestRested) {
  for (std::uint32_t slot = 1; slot < Qpn::kSlots; ++slot) {
    table.hold(slot);
    if (slot != 444) table.release(slot, slot == 555 ? kNow - 10s : kNow);
  }
  const auto later = kNow + 1s;
  auto order = slots_to_try(table, later);
  ASSERT_EQ(order.size(), Qpn::kSlots - 2) << "all but 0 and the held one";
  EXPECT_EQ(order.front(), 555u);

  SharedTable fresh = std::move(SharedTable::found()).value();
  fresh.hold(333);
  fresh.release(333, kNow);
  order = slots_to_try(fresh, later);
  EXPECT_EQ(order.back(), 333u) << "rests";
  order = slots_to_try(fresh, kNow + SharedTable::kRest);
  EXPECT_EQ(order.size(), Qpn::kSlots - 1);
}

TEST_F(SharedTableTest, ASlotWhoseDeathNobodySawRests) {
  const auto claimed = claim_name(registry_name(334));
  if (!claimed) GTEST_SKIP() << "another program holds slot 334";
  table.hold(333);  // and no such name, most likely
  table.hold(334);
  bury_unseen_dead(table, kNow);
  EXPECT_EQ(table.state(334, kNow), SlotState::held);
  const auto live = live_slots();
  if (std::find(live.begin(), live.end(), 333u) != live.end()) {
    GTEST_SKIP() << "another program holds slot 333";
  }
  EXPECT_EQ(table.state(333, kNow), SlotState::resting);
}

}  // namespace
}  // namespace verbena::registry::test
