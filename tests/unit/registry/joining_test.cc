#include "registry/joining.h"

#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <vector>

#include "registry/control_message.h"
#include "registry/names.h"
#include "tests/support/child_peer.h"

namespace verbena::registry::test {
namespace {

using namespace verbena::test;

bool is_live(std::uint32_t slot) {
  const auto live = live_slots();
  return std::find(live.begin(), live.end(), slot) != live.end();
}

TEST(RegistryName, ReadsTheSlotsFromAListing) {
  const auto own = "@verbena." + std::to_string(::geteuid()) + ".";
  const auto text =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "00: 00000002 00000000 00010000 0005 01 20 " +
      own +
      "17\n"
      "00: 00000003 00000000 00000000 0005 03 21 " +
      own +
      "17\n"
      "00: 00000002 00000000 00010000 0005 01 22 " +
      own +
      "9x\n"
      "00: 00000002 00000000 00010000 0005 01 23 " +
      own +
      "founder\n"
      "00: 00000002 00000000 00010000 0005 01 24 " +
      own +
      "99999\n"
      "00: 00000002 00000000 00010000 0005 01 25 @verbena.4294967000.3\n"
      "00: 00000002 00000000 00010000 0005 01 26 " +
      own + "1023";
  EXPECT_EQ(slots_in(text), (std::vector<std::uint32_t>{17, 1023}));
}

TEST(RegistryName, HasTheUserAsTheParentNamespaceNumbersIt) {
  constexpr std::uint32_t kNobody = 65'534;
  const std::string_view everybody = "         0          0 4294967295\n";
  EXPECT_EQ(user_outside(everybody, 1000, kNobody), 1000u);
  EXPECT_EQ(user_outside(everybody, kNobody, kNobody), kNobody);
  // unshare -r, and with --map-current-user
  EXPECT_EQ(user_outside("0 1000 1\n", 0, kNobody), 1000u);
  EXPECT_EQ(user_outside("1000 1000 1\n", 1000, kNobody), 1000u);
  // A container with users of its own
  const std::string_view container = "0 1000 1\n1 100000 65536\n";
  EXPECT_EQ(user_outside(container, 0, kNobody), 1000u);
  EXPECT_EQ(user_outside(container, 5, kNobody), 100'004u);
}

TEST(RegistryName, NobodyIsTrustedWhereOtherUsersLookLikeUs) {
  constexpr std::uint32_t kNobody = 65'534;
  EXPECT_EQ(user_outside("", kNobody, kNobody), std::nullopt) << "unshare --user";
  EXPECT_EQ(user_outside("0 1000 1\n", 7, kNobody), std::nullopt) << "not mapped";
  // A map of ours to nobody's number doesn't help: the unmapped have it, too.
  EXPECT_EQ(user_outside("65534 1000 1\n", kNobody, kNobody), std::nullopt);
}

TEST(Registry, GivesEachASlotOfItsOwnAndTakesItBack) {
  auto first = join_registry();
  auto second = join_registry();
  ASSERT_TRUE(first.ok()) << first.error().message;
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_NE(first->slot, 0u);
  EXPECT_NE(first->slot, second->slot);
  EXPECT_EQ(first->table.nonce(), second->table.nonce());
  EXPECT_TRUE(is_live(first->slot));
  first->listener.reset();
  first->sponsor.reset();
  EXPECT_FALSE(is_live(first->slot));
}

TEST(Registry, HandsTheTableToAJoiner) {
  Member founder;
  const auto nonce = join_registry()->table.nonce();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  Fd out{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) {
    founder.abandon();
    const auto joined = join_registry();
    const std::uint64_t got = joined ? joined->table.nonce() : 0;
    ::_exit(::write(out.get(), &got, sizeof got) == sizeof got ? 0 : 1);
  }
  out.reset();
  pollfd p{in.get(), POLLIN, 0};
  while (::poll(&p, 1, 1) == 0) founder.turn();
  std::uint64_t got = 0;
  EXPECT_EQ(::read(in.get(), &got, sizeof got), static_cast<ssize_t>(sizeof got));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(got, nonce);
}

TEST(Registry, JoinsThoughAPeerIsStopped) {
  ChildMember child;
  child.stop();
  const auto before = monotonic_now();
  const auto joined = join_registry();
  ASSERT_TRUE(joined.ok()) << joined.error().message;
  EXPECT_LT(monotonic_now() - before, 2s);
}

TEST(Registry, SeesADeathAsAHangUp) {
  Member witness;
  ChildMember child{{&witness}};
  auto table = std::move(join_registry()->table);
  ASSERT_EQ(table.state(child.slot(), monotonic_now()), SharedTable::SlotState::held);
  child.kill();
  EXPECT_FALSE(is_live(child.slot()));
  // The witness met the child; others learn it from the table.
  if (!run_until<Member>({&witness}, [&] {
        return table.state(child.slot(), monotonic_now()) == SharedTable::SlotState::resting;
      })) {
    GTEST_SKIP() << "the child's sponsor was another program's process";
  }
}

TEST(Registry, EachDeathIsSeenBySomebodyWhoIsLeft) {
  constexpr std::size_t kChildren = 8;
  Member witness;
  std::vector<std::unique_ptr<ChildMember>> children;
  for (std::size_t i = 0; i < kChildren; ++i) {
    // Their sponsor is any of those who are there: the witness has met only some of them.
    children.push_back(std::make_unique<ChildMember>(std::vector<Member*>{&witness}));
  }
  SharedTable& table = witness.registry->table();
  for (auto& child : children) ASSERT_TRUE(table.held(child->slot()));
  const auto strangers = live_slots().size() - kChildren - 1;
  for (auto& child : children) child->kill();
  const bool all_seen = run_until<Member>({&witness}, [&] {
    return std::ranges::none_of(children, [&](auto& c) { return table.held(c->slot()); });
  });
  if (!all_seen && strangers > 0) GTEST_SKIP() << "other programs' processes are between them";
  EXPECT_TRUE(all_seen);
}

TEST(Registry, NamesOfOthersAreNotConnectedTo) {
  const auto refused = connect_to_slot(0);  // never claimed
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ECONNREFUSED);
}

/// A process of another user.
class Stranger {
 public:
  /// Runs `act` there; what it returns is the exit status.
  template <typename Act>
  Stranger(Member& own, Act act) : pid_{::fork()} {
    if (pid_ != 0) return;
    constexpr uid_t kNobody = 65'534;
    own.abandon();
    ::_exit(::setresuid(kNobody, kNobody, kNobody) == 0 ? act() : 99);
  }
  ~Stranger() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  /// Its exit status, while `serve` is driven; -1: it doesn't end.
  int status(const std::vector<Member*>& serve) {
    int status = 0;
    const bool ended =
        run_until<Member>(serve, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

struct AbstractName {
  explicit AbstractName(const std::string& name) {
    address.sun_family = AF_UNIX;
    name.copy(&address.sun_path[1], sizeof address.sun_path - 1);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  sockaddr_un address{};
  socklen_t size = 0;
};

TEST(Registry, AdmitsTheSameUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Member own;
  const AbstractName name{registry_name(own.slot())};
  Stranger stranger{own, [&] {
                      const Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET, 0)};
                      const auto* address = reinterpret_cast<const sockaddr*>(&name.address);
                      if (::connect(fd.get(), address, name.size) != 0) return 1;
                      const ControlHeader request{.kind = ControlKind::table_request};
                      (void)::send(fd.get(), &request, sizeof request, MSG_NOSIGNAL);
                      char answer = 0;
                      return ::recv(fd.get(), &answer, 1, 0) > 0 ? 2 : 0;  // hung up without a word
                    }};
  EXPECT_EQ(stranger.status({&own}), 0);
}

TEST(Registry, BelievesTheSameUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Member own;
  const std::uint32_t slot = own.slot() == 77 ? 78 : 77;
  const AbstractName name{registry_name(slot)};
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  const Fd out{ends[1]};
  Stranger stranger{own, [&] {
                      const Fd fd{::socket(AF_UNIX, SOCK_SEQPACKET, 0)};
                      const auto* address = reinterpret_cast<const sockaddr*>(&name.address);
                      if (::bind(fd.get(), address, name.size) != 0 || ::listen(fd.get(), 1) != 0)
                        return 1;
                      (void)!::write(out.get(), "x", 1);
                      return ::pause();
                    }};
  pollfd listens{in.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&listens, 1, 5000), 1);
  const auto refused = connect_to_slot(slot);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EPERM);
}

TEST(Registry, LeavesNothingBehind) {
  std::uint32_t slot = 0;
  {
    Member a;
    slot = a.slot();
    EXPECT_TRUE(is_live(slot));
  }
  EXPECT_FALSE(is_live(slot));
}

TEST(Registry, ManyJoinAtOnce) {
  // All found or join at the same moment; exactly one table must come of it.
  constexpr int kProcesses = 8;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd in{ends[0]};
  Fd out{ends[1]};
  int gate[2];
  ASSERT_EQ(::pipe2(gate, O_CLOEXEC), 0);
  Fd gate_in{gate[0]};
  Fd gate_out{gate[1]};
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto joined = join_registry();
      const std::uint64_t nonce = joined ? joined->table.nonce() : 0;
      if (::write(out.get(), &nonce, sizeof nonce) != sizeof nonce) ::_exit(1);
      gate_out.reset();
      char byte = 0;
      (void)!::read(gate_in.get(), &byte, 1);  // stays until all are through
      ::_exit(0);
    }
    children.push_back(child);
  }
  std::vector<std::uint64_t> nonces(kProcesses);
  for (auto& nonce : nonces) {
    pollfd p{in.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&p, 1, 10'000), 1);
    ASSERT_EQ(::read(in.get(), &nonce, sizeof nonce), static_cast<ssize_t>(sizeof nonce));
  }
  gate_out.reset();
  for (const auto child : children) ::waitpid(child, nullptr, 0);
  EXPECT_EQ(std::count(nonces.begin(), nonces.end(), nonces.front()), kProcesses);
  EXPECT_NE(nonces.front(), 0u);
}

}  // namespace
}  // namespace verbena::registry::test
