// How a process learns that another one has died. Some of the dead live in this process: a name, a
// slot, and the other end of a connection are all that is seen of them.

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include "registry/control_message.h"
#include "registry/joining.h"
#include "registry/names.h"
#include "tests/support/peers.h"

namespace verbena::registry::test {
namespace {

using namespace verbena::test;

constexpr uid_t kOtherUser = 1234;

Fd connected_to(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(&address.sun_path[1], sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
  return fd;
}

/// What the witness sees of another process.
struct Other {
  explicit Other(SharedTable& shared) : table{shared} {
    auto claimed = claim_slot(table, monotonic_now());
    if (!claimed) throw std::runtime_error(claimed.error().message);
    slot = claimed->slot;
    listener = std::move(claimed->listener);
  }
  ~Other() { table.release(slot, monotonic_now()); }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void accept() {
    connection = Fd{::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)};
    ASSERT_TRUE(connection);
  }
  /// As its name is taken by the next process, which didn't wait until the slot had rested.
  void reincarnate() {
    listener.reset();
    listener = std::move(claim_name(registry_name(slot))).value();
    table.hold(slot);
    ASSERT_EQ(::listen(listener.get(), 8), 0);
  }

  SharedTable& table;
  std::uint32_t slot = 0;
  Fd listener;
  Fd connection;
};

class Deaths : public testing::Test, Watcher {
 protected:
  Deaths() { witness.registry->watch(*this); }
  ~Deaths() override { witness.registry->unwatch(*this); }

  void member_died(std::uint32_t slot) override { dead.push_back(slot); }

  /// They know each other.
  void meet() {
    witness.registry->meet(other.slot);
    other.accept();
  }
  [[nodiscard]] bool held() { return witness.registry->table().held(other.slot); }
  [[nodiscard]] std::ptrdiff_t told() const { return std::ranges::count(dead, other.slot); }
  bool hears_of_it() {
    return run_until<Member>({&witness}, [&] { return told() > 0; });
  }
  /// From now on, nobody can tell whether the other one lives: its backlog is full.
  void fill_backlog() {
    ASSERT_EQ(::listen(other.listener.get(), 0), 0);
    for (Fd fd = connected_to(registry_name(other.slot)); fd;
         fd = connected_to(registry_name(other.slot))) {
      waiting.push_back(std::move(fd));
    }
  }
  void turn_for(std::chrono::milliseconds time) {
    const auto end = monotonic_now() + time;
    while (monotonic_now() < end) turn_all<Member>({&witness}, 2ms);
  }

  Member witness;
  Other other{witness.registry->table()};
  std::vector<std::uint32_t> dead;
  std::vector<Fd> waiting;
};

TEST_F(Deaths, AProcessWhoseNameIsGoneIsDead) {
  meet();
  other.listener.reset();
  other.connection.reset();
  EXPECT_TRUE(hears_of_it());
  EXPECT_FALSE(held());
}

TEST_F(Deaths, AFullBacklogHidesADeathForAMomentOnly) {
  meet();
  fill_backlog();
  other.connection.reset();
  turn_for(50ms);
  EXPECT_EQ(told(), 0) << "the name stands";
  other.listener.reset();
  EXPECT_TRUE(hears_of_it());
  EXPECT_FALSE(held());
}

TEST_F(Deaths, ALackOfDescriptorsHidesADeathForAMomentOnly) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object";
#endif
  meet();
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &usual), 0);
  rlimit tight = usual;
  tight.rlim_cur = 3;
  other.listener.reset();
  other.connection.reset();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  turn_for(50ms);
  const auto told_then = told();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  EXPECT_EQ(told_then, 0) << "nobody could look";
  EXPECT_TRUE(hears_of_it());
  EXPECT_FALSE(held());
}

TEST_F(Deaths, ANameThatAnotherUserHasTakenIsADeath) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  meet();
  other.listener.reset();
  Fd squatter = std::move(claim_name(registry_name(other.slot))).value();
  ASSERT_EQ(::seteuid(kOtherUser), 0);
  const int listens = ::listen(squatter.get(), 8);  // whose credentials the kernel shows
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_EQ(listens, 0);
  other.connection.reset();
  EXPECT_TRUE(hears_of_it());
  EXPECT_FALSE(held());
}

TEST_F(Deaths, WhoFindsADeathByAMessageIsTold) {
  other.listener.reset();
  EXPECT_FALSE(witness.registry->pass(other.slot, 0, {}, {}));
  EXPECT_EQ(told(), 1);
  EXPECT_FALSE(held());
}

TEST_F(Deaths, AMessageToAFreeSlotIsNoDeath) {
  other.listener.reset();
  witness.registry->table().release(other.slot, monotonic_now());
  EXPECT_FALSE(witness.registry->pass(other.slot, 0, {}, {}));
  EXPECT_EQ(told(), 0);
}

TEST_F(Deaths, TheNextProcessInASlotDoesNotHideTheDeathOfTheLast) {
  meet();
  other.reincarnate();
  other.connection.reset();
  EXPECT_TRUE(hears_of_it());
  turn_for(50ms);
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(held()) << "by the next one";
  EXPECT_TRUE(witness.registry->has_met(other.slot));
  // And its death is seen, too.
  other.accept();
  other.listener.reset();
  other.connection.reset();
  EXPECT_TRUE(run_until<Member>({&witness}, [&] { return told() == 2; }));
  EXPECT_FALSE(held());
}

/// Else the news would end what was begun with the next one.
TEST_F(Deaths, TheNextProcessIsNotMetBeforeTheDeathOfTheLastIsTold) {
  meet();
  fill_backlog();
  other.connection.reset();
  turn_for(50ms);
  ASSERT_EQ(told(), 0);
  other.reincarnate();
  EXPECT_FALSE(witness.registry->pass(other.slot, 0, {}, {}));
  EXPECT_FALSE(witness.registry->has_met(other.slot));
  EXPECT_TRUE(hears_of_it());
  EXPECT_TRUE(witness.registry->pass(other.slot, 0, {}, {}));
  EXPECT_EQ(told(), 1);
}

TEST_F(Deaths, AHelloFromTheNextProcessTellsOfTheDeathOfTheLast) {
  meet();
  other.reincarnate();
  const Fd next = connected_to(registry_name(witness.slot()));
  ASSERT_TRUE(next);
  const auto tenancy = static_cast<std::uint64_t>(witness.registry->table().tenancy(other.slot));
  const ControlHeader hello{.kind = ControlKind::hello, .slot = other.slot, .tenancy = tenancy};
  ASSERT_GT(::send(next.get(), &hello, sizeof hello, MSG_NOSIGNAL), 0);
  EXPECT_TRUE(hears_of_it());
  // The old hang-up is no news: it would end what the next one has begun.
  other.connection.reset();
  turn_for(50ms);
  EXPECT_EQ(told(), 1);
  EXPECT_TRUE(held());
}

TEST_F(Deaths, WhoeverTurnsUsAwayIsAskedNowAndThenOnly) {
  meet();
  other.connection.reset();
  int times = 0;
  const auto end = monotonic_now() + 200ms;
  while (monotonic_now() < end) {
    turn_all<Member>({&witness}, 1ms);
    while (Fd{::accept4(other.listener.get(), nullptr, nullptr, SOCK_CLOEXEC)}) ++times;
  }
  EXPECT_GT(times, 0);
  EXPECT_LE(times, 20);
  EXPECT_EQ(told(), 0);
}

TEST_F(Deaths, AProcessThatChangesItsUserKillsNobody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::seteuid(kOtherUser), 0);
  witness.registry->meet(other.slot);
  const bool passed = witness.registry->pass(other.slot, 0, {}, {});
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_FALSE(passed);
  EXPECT_EQ(told(), 0);
  EXPECT_TRUE(held());
}

}  // namespace
}  // namespace verbena::registry::test
