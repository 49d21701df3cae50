#include "registry/port_table.h"

#include <array>
#include <atomic>
#include <barrier>
#include <thread>

#include "registry/joining.h"
#include "system/random.h"
#include "tests/support/child_peer.h"

namespace verbena::registry::test {
namespace {

using namespace verbena::test;

/// A process of the registry that does nothing but bind ports.
struct Member {
  Registration registration = std::move(join_registry()).value();
  PortTable ports{registration.table, registration.slot};

  ~Member() {
    if (!gone) registration.table.release(registration.slot, monotonic_now());
  }
  /// As if it had been killed: the table isn't told.
  void die() {
    registration.listener.reset();
    registration.sponsor.reset();
    gone = true;
  }
  bool gone = false;
};

const IpAddress kV4 = loopback(50);
const IpAddress kOtherV4 = loopback(51);
const IpAddress kV6 = *IpAddress::parse("fd00::1");

PortBinding at(const IpAddress& address) { return {.port = test_port(10), .address = address}; }
PortBinding every(Family family) { return {.port = test_port(10), .family = family}; }
PortBinding reusable(PortBinding binding) {
  binding.reuse = true;
  return binding;
}
PortBinding moved(PortBinding binding, PortSpace space, int ports) {
  binding.space = space;
  binding.port = static_cast<std::uint16_t>(binding.port + ports);
  return binding;
}

struct Case {
  const char* what;
  PortBinding first, second;
  bool together;
};

class Conflict : public testing::TestWithParam<Case> {};

TEST_P(Conflict, IsFoundWhoeverComesFirst) {
  Member a, b;
  const std::array<PortBinding, 2> orders[]{{GetParam().first, GetParam().second},
                                            {GetParam().second, GetParam().first}};
  for (const auto& order : orders) {
    // By another process, and by the same one.
    for (Member* second : {&b, &a}) {
      const auto one = a.ports.bind(order[0]);
      ASSERT_TRUE(one.ok()) << one.error().message;
      const auto two = second->ports.bind(order[1]);
      EXPECT_EQ(two.ok(), GetParam().together);
      if (two) {
        second->ports.release(two->id);
      } else {
        EXPECT_EQ(two.error().code, EADDRINUSE);
        EXPECT_NE(two.error().message.find("process " + std::to_string(::getpid())),
                  std::string::npos)
            << two.error().message;
      }
      a.ports.release(one->id);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Conflict,
    testing::Values(Case{"SameAddress", at(kV4), at(kV4), false},
                    Case{"OtherAddress", at(kV4), at(kOtherV4), true},
                    Case{"OtherFamily", at(kV4), at(kV6), true},
                    Case{"OtherPort", at(kV4), moved(at(kV4), PortSpace::tcp, 1), true},
                    Case{"OtherSpace", at(kV4), moved(at(kV4), PortSpace::udp, 0), true},
                    Case{"OtherSpaceEverywhere", every(Family::any),
                         moved(every(Family::any), PortSpace::udp, 0), true},
                    Case{"AddressAndAny", at(kV4), every(Family::any), false},
                    Case{"V6AddressAndAny", at(kV6), every(Family::any), false},
                    Case{"AddressAndItsFamily", at(kV4), every(Family::v4), false},
                    Case{"V6AddressAndItsFamily", at(kV6), every(Family::v6), false},
                    Case{"AddressAndOtherFamily", at(kV4), every(Family::v6), true},
                    Case{"V6AddressAndOtherFamily", at(kV6), every(Family::v4), true},
                    Case{"AnyTwice", every(Family::any), every(Family::any), false},
                    Case{"AnyAndV4", every(Family::any), every(Family::v4), false},
                    Case{"AnyAndV6", every(Family::any), every(Family::v6), false},
                    Case{"V4AndV6", every(Family::v4), every(Family::v6), true},
                    Case{"V6Twice", every(Family::v6), every(Family::v6), false},
                    Case{"BothReuse", reusable(at(kV4)), reusable(at(kV4)), true},
                    Case{"BothReuseEverywhere", reusable(every(Family::any)), reusable(at(kV4)),
                         true},
                    Case{"OneReuses", reusable(at(kV4)), at(kV4), false},
                    Case{"OneReusesEverywhere", every(Family::any), reusable(at(kV4)), false}),
    [](const auto& p) { return p.param.what; });

TEST(PortTableTest, AListenerSharesItsPortWithNobody) {
  Member a, b;
  const auto one = a.ports.bind(reusable(at(kV4)));
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(a.ports.listen(one->id).ok());
  EXPECT_TRUE(a.ports.listen(one->id).ok()) << "it does";
  for (const auto& binding : {at(kV4), every(Family::any)}) {
    const auto two = b.ports.bind(reusable(binding));
    ASSERT_FALSE(two.ok());
    EXPECT_EQ(two.error().code, EADDRINUSE);
    EXPECT_NE(two.error().message.find("listens there"), std::string::npos) << two.error().message;
  }
  EXPECT_TRUE(a.ports.release(one->id));
  EXPECT_TRUE(b.ports.bind(reusable(at(kV4))).ok());
}

TEST(PortTableTest, OfTwoThatShareAPortOneCanListen) {
  Member a, b;
  const auto one = a.ports.bind(reusable(at(kV4)));
  const auto two = b.ports.bind(reusable(every(Family::any)));
  const auto elsewhere = b.ports.bind(reusable(at(kOtherV4)));
  ASSERT_TRUE(one.ok() && two.ok() && elsewhere.ok());
  ASSERT_TRUE(a.ports.listen(one->id).ok());
  const auto refused = b.ports.listen(two->id);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EADDRINUSE);
  EXPECT_TRUE(b.ports.listen(elsewhere->id).ok());
  b.ports.release(elsewhere->id);
  a.ports.release(one->id);
  EXPECT_TRUE(b.ports.listen(two->id).ok());
}

TEST(PortTableTest, KnowsWhoListensWhere) {
  Member a, b, c;
  const auto& table = a.registration.table;
  const auto port = test_port(10);
  const ServiceId service{PortSpace::tcp, port};
  const auto listen = [](Member& m, const PortBinding& binding) {
    const auto bound = m.ports.bind(binding);
    return bound.ok() && m.ports.listen(bound->id).ok();
  };
  const auto bound_only = b.ports.bind(moved(at(kV4), PortSpace::udp, 0));
  ASSERT_TRUE(bound_only.ok());
  ASSERT_TRUE(listen(a, at(kV4)));
  ASSERT_TRUE(listen(b, every(Family::v6)));
  ASSERT_TRUE(listen(c, moved(every(Family::any), PortSpace::tcp, 1)));

  const auto slot = [](const Member& m) { return m.registration.slot; };
  EXPECT_EQ(listener_of(table, service, kV4), slot(a));
  EXPECT_EQ(listener_of(table, service, kOtherV4), std::nullopt);
  EXPECT_EQ(listener_of(table, service, kV6), slot(b));
  EXPECT_EQ(listener_of(table, {PortSpace::udp, port}, kV4), std::nullopt) << "doesn't listen";
  for (const auto& address : {kV4, kOtherV4, kV6}) {
    EXPECT_EQ(listener_of(table, {PortSpace::tcp, static_cast<std::uint16_t>(port + 1)}, address),
              slot(c));
  }
  EXPECT_EQ(listener_of(table, ServiceId{service.value() | 1ull << 40}, kV4), std::nullopt);

  const auto slots = listening_slots(table);
  for (const Member* m : {&a, &b, &c}) {
    EXPECT_EQ(std::count(slots.begin(), slots.end(), slot(*m)), 1);
  }
  const auto here = listeners_at(table, kV4);
  const auto position = [&here](const Member& m) {
    return std::find_if(here.begin(), here.end(),
                        [&m](const Listener& l) { return l.slot == m.registration.slot; });
  };
  EXPECT_NE(position(a), here.end());
  EXPECT_EQ(position(b), here.end());
  EXPECT_NE(position(c), here.end());
  EXPECT_LT(position(a), position(c)) << "those of the address before wildcards";
}

TEST(PortTableTest, GivesEphemeralPortsThatAreFree) {
  Member a, b;
  const auto range = ephemeral_ports();
  std::vector<bool> seen(1u << 16);
  for (int i = 0; i < 300; ++i) {
    auto& ports = i % 2 == 0 ? a.ports : b.ports;
    const auto bound = ports.bind({.address = kV4, .reuse = i % 3 == 0});
    ASSERT_TRUE(bound.ok()) << bound.error().message;
    EXPECT_GE(bound->port, range.first);
    EXPECT_LE(bound->port, range.last);
    EXPECT_FALSE(seen[bound->port]) << bound->port;
    seen[bound->port] = true;
  }
}

TEST(PortTableTest, SaysWhenNoEphemeralPortIsFree) {
  Member a;
  const auto first = test_port(20);
  const auto last = static_cast<std::uint16_t>(first + 19);
  PortTable ports{a.registration.table, a.registration.slot, PortRange{first, last}};
  std::vector<PortId> bound;
  for (int i = 0; i < 20; ++i) {
    const auto one = ports.bind({.address = kV4, .reuse = true});
    ASSERT_TRUE(one.ok()) << one.error().message;
    bound.push_back(one->id);
  }
  const auto refused = ports.bind({.address = kV4, .reuse = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EADDRNOTAVAIL);
  EXPECT_NE(refused.error().message.find(std::to_string(last)), std::string::npos);
  EXPECT_TRUE(ports.bind({.address = kOtherV4}).ok());
  EXPECT_TRUE(ports.bind({.space = PortSpace::udp, .address = kV4}).ok());
  ports.release(bound[7]);
  EXPECT_TRUE(ports.bind({.address = kV4}).ok());
}

TEST(PortTableTest, AnEphemeralPortCanBeSharedAfterwards) {
  Member a;
  auto binding = reusable({.address = kV4});
  const auto first = a.ports.bind(binding);
  ASSERT_TRUE(first.ok());
  binding.port = first->port;
  EXPECT_TRUE(a.ports.bind(binding).ok());
}

TEST(PortTableTest, SaysWhenItIsFull) {
  // A table of its own, which other programs don't need; the member holds the slot's name.
  const Member holder;
  const auto slot = holder.registration.slot;
  auto table = std::move(SharedTable::found()).value();
  table.hold(slot);
  PortTable ports{table, slot};
  const auto bound = ports.bind(at(kV4));
  ASSERT_TRUE(bound.ok());
  auto& memory = table.ports();
  memory.used = PortMemory::kEntries;
  for (std::size_t i = 1; i < PortMemory::kEntries; ++i) {
    memory.write(i, {.port = static_cast<std::uint16_t>(i)}, 1);
    memory.entries[i].head = PortHead{slot, PortState::bound, 1}.word();
  }
  for (const auto& wanted : {PortBinding{.address = kOtherV4}, at(kOtherV4)}) {
    const auto refused = ports.bind(wanted);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ENOMEM) << refused.error().message;
  }
  ports.release(bound->id);
  EXPECT_TRUE(ports.bind({.address = kOtherV4}).ok());
}

TEST(PortTableTest, AnUnseenDeathFreesThePort) {
  Member a, b;
  const auto one = b.ports.bind(at(kV4));
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(b.ports.listen(one->id).ok());
  b.die();
  EXPECT_TRUE(a.ports.bind(at(kV4)).ok());
}

TEST(PortTableTest, ASlotBeginsWithoutPorts) {
  auto table = std::move(SharedTable::found()).value();
  table.hold(5);
  PortTable former{table, 5};
  const auto bound = former.bind(at(kV4));
  ASSERT_TRUE(bound.ok() && former.listen(bound->id).ok());
  const ServiceId service{PortSpace::tcp, test_port(10)};
  EXPECT_EQ(listener_of(table, service, kV4), 5u);
  table.release(5, monotonic_now());
  EXPECT_EQ(listener_of(table, service, kV4), std::nullopt);
  table.hold(5);
  EXPECT_EQ(listener_of(table, service, kV4), std::nullopt);
}

TEST(PortTableTest, AnswersForIdsThatItDidNotGive) {
  Member a;
  const auto refused = a.ports.listen(PortId{16'000});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_FALSE(a.ports.release(PortId{16'000}));
}

/// Threads for processes: all that is common to either is the table. It is a table of their
/// own, and its entries are all worth a look, which leaves time to get in each other's way.
class Race : public testing::Test {
 protected:
  static constexpr std::size_t kRunners = 2;
  // A thread that isn't run for as long as kPatience may cost a round.
#ifdef __SANITIZE_THREAD__
  // A look at all entries takes nearly that long here: one round in six was seen without a winner.
  static constexpr int kRounds = 300;  // of 65 ms each
  static constexpr int kMostWithNone = kRounds / 2;
#else
  static constexpr int kRounds = 2000;
  static constexpr int kMostWithNone = kRounds / 10;
#endif

  Race() {
    table.ports().used = PortMemory::kEntries;
    for (const auto& name : names) {
      table.hold(name.registration.slot);
      ports.push_back(std::make_unique<PortTable>(table, name.registration.slot));
    }
  }

  /// Each round, all runners `run` at once; then all `clear` what they did.
  template <typename Prepare, typename Run, typename Clear>
  void go(Prepare prepare, Run run, Clear clear) {
    std::array<bool, kRunners> won{};
    int with_two = 0;
    int with_none = 0;
    const auto count = [&]() noexcept {
      const auto winners = std::count(won.begin(), won.end(), true);
      if (winners > 1) ++with_two;
      if (winners == 0) ++with_none;
    };
    // Spins: a thread that has to be woken comes too late to race.
    std::atomic<std::size_t> ready{0};
    const auto wait_for_all = [&ready](int round) {
      ++ready;
      while (ready < kRunners * (static_cast<std::size_t>(round) + 1)) std::this_thread::yield();
    };
    std::barrier cleared{kRunners};
    std::barrier done{kRunners, count};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kRunners; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < kRounds; ++round) {
          prepare(i);
          wait_for_all(round);
          won[i] = run(i);
          done.arrive_and_wait();
          clear(i);
          cleared.arrive_and_wait();
        }
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(with_two, 0) << "rounds with two winners of " << kRounds;
    EXPECT_LT(with_none, kMostWithNone);
  }

  std::array<Member, kRunners> names;
  SharedTable table = std::move(SharedTable::found()).value();
  std::vector<std::unique_ptr<PortTable>> ports;
  std::array<std::optional<PortId>, kRunners> bound;
};

TEST_F(Race, OfThoseThatWantAPortOneGetsIt) {
  go([](std::size_t) {},
     [this](std::size_t i) {
       const auto result = ports[i]->bind(i % 2 == 0 ? at(kV4) : every(Family::any));
       bound[i] = result ? std::optional{result->id} : std::nullopt;
       return result.ok();
     },
     [this](std::size_t i) {
       if (bound[i]) ports[i]->release(*bound[i]);
     });
}

TEST_F(Race, OfThoseThatShareAPortOneListens) {
  go(
      [this](std::size_t i) {
        const auto result = ports[i]->bind(reusable(at(kV4)));
        ASSERT_TRUE(result.ok()) << result.error().message;
        bound[i] = result->id;
      },
      [this](std::size_t i) { return bound[i] && ports[i]->listen(*bound[i]).ok(); },
      [this](std::size_t i) {
        if (bound[i]) ports[i]->release(*bound[i]);
      });
}

/// As if `m` were stopped on its way to the next state.
void stop_in(Member& m, PortId id, PortState state) {
  auto& head = m.registration.table.ports().entries[static_cast<std::uint32_t>(id)].head;
  auto stopped = PortHead::of(head);
  stopped.state = state;
  head = stopped.word();
}

TEST(PortTableTest, GivesWayToAStoppedBinderOnlySoLong) {
  Member a, b;
  const auto bound = b.ports.bind(at(kV4));
  ASSERT_TRUE(bound.ok());
  stop_in(b, bound->id, PortState::trying);
  const auto before = monotonic_now();
  const auto refused = a.ports.bind(at(kV4));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EADDRINUSE);
  EXPECT_NE(refused.error().message.find("about to bind"), std::string::npos);
  EXPECT_GE(monotonic_now() - before, PortTable::kPatience);
}

TEST(PortTableTest, GivesWayToAStoppedListenerOnlySoLong) {
  Member a, b;
  const auto one = a.ports.bind(reusable(at(kV4)));
  const auto two = b.ports.bind(reusable(at(kV4)));
  ASSERT_TRUE(one.ok() && two.ok());
  stop_in(b, two->id, PortState::preparing);
  const auto refused = a.ports.listen(one->id);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, EADDRINUSE);
  EXPECT_NE(refused.error().message.find("about to listen"), std::string::npos);
  stop_in(b, two->id, PortState::bound);
  EXPECT_TRUE(a.ports.listen(one->id).ok()) << "the refusal left it bound";
}

TEST(PortTableTest, SurvivesAnyContents) {
  auto table = std::move(SharedTable::found()).value();
  table.hold(5);
  PortTable ports{table, 5};
  auto& memory = table.ports();
  const auto fill = [&](auto&& value) {
    memory.used = static_cast<std::uint32_t>(value());
    for (auto& entry : memory.entries) {
      entry.head = value();
      entry.key = value();
      for (auto& half : entry.address) half = value();
    }
  };
  const auto use = [&] {
    table.hold(5);  // a conflict makes us look for our name, which is not bound
    (void)listeners_at(table, kV4);
    (void)listener_of(table, {PortSpace::tcp, 7}, kV4);
    (void)listening_slots(table);
    for (const auto port : {std::uint16_t{0}, std::uint16_t{7}}) {
      const auto bound = ports.bind({.port = port, .address = kV4});
      if (!bound) continue;
      (void)ports.listen(bound->id);
      memory.entries[static_cast<std::uint32_t>(bound->id)].head = ~0ull;  // under our hands
      (void)ports.listen(bound->id);
      ports.release(bound->id);
    }
  };
  for (const std::uint64_t pattern : {~0ull, 0x0101'0101'0101'0101ull, 0x8080'8080'8080'8080ull}) {
    fill([pattern] { return pattern; });
    use();
  }
  for (int i = 0; i < 5; ++i) {
    fill([] { return random_number<std::uint64_t>(); });
    for (std::uint32_t slot = 1; slot < Qpn::kSlots; slot += 3) table.hold(slot);
    fill([] { return random_number<std::uint64_t>(); });
    use();
  }
}

TEST(PortTableTest, ADamagedEntryIsAnErrorOfItsOwner) {
  Member a;
  const auto bound = a.ports.bind(at(kV4));
  ASSERT_TRUE(bound.ok());
  a.registration.table.ports().entries[static_cast<std::uint32_t>(bound->id)].head = 0;
  const auto listens = a.ports.listen(bound->id);
  ASSERT_FALSE(listens.ok());
  EXPECT_EQ(listens.error().code, EIO);
}

TEST(PortRangeTest, ReadsWhatTheKernelWrites) {
  EXPECT_EQ(parse_port_range("32768\t60999\n"), (PortRange{32'768, 60'999}));
  EXPECT_EQ(parse_port_range("1 1"), (PortRange{1, 1}));
  for (const auto* text : {"", "5", "0 7", "9 8", "1 65536", "x 9", "-1 5"}) {
    EXPECT_FALSE(parse_port_range(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace verbena::registry::test
