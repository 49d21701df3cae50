// Processes of one host, whose connections lie in their common table; some of them die. Each is a
// member of the real registry, and ends by leaving it.

#include "host/connections/orphan_search.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "host/clock.h"
#include "host/system_entropy.h"
#include "packet/cm_dreq.h"
#include "packet/cm_mad.h"
#include "tests/support/memory_wire.h"
#include "tests/support/peers.h"

namespace verbena::host {
namespace {

using namespace std::chrono_literals;
using cm::EventKind;
using test::Member;
using test::MemoryNetwork;
using test::MemoryWire;

const IpAddress kHere = IpAddress::v4({10, 0, 0, 1});
const IpAddress kElsewhere = IpAddress::v4({10, 0, 0, 2});
const Instant kNow = host::now();

struct Process {
  explicit Process(Status opens = Ok{})
      : wires{std::make_unique<MemoryWire>(network, room)},
        records{*member.registry},
        manager{{.slot = member.slot()}, entropy},
        search{*member.registry, wires, records, manager, [this, opens](const IpAddress& address) {
                 opened.push_back(address);
                 return opens;
               }} {
    manager.keep_records(&records);
    look(kNow);
  }

  [[nodiscard]] registry::ConnectionMemory& rows() {
    return member.registry->table().connections();
  }
  /// As after a death, when nothing is left to be received.
  void look(Instant now) { search.work(now, true); }
  /// Until it knows that the process of `slot` is dead, and has looked.
  void see_death_of(std::uint32_t slot) {
    member.registry->meet(slot);  // others may lie between them
    ASSERT_TRUE(test::run_until<Member>({&member}, [&] {
      return !member.registry->held(slot) && search.next_deadline() != kNever;
    }));
    look(host::now());
  }
  /// Its connection number `i`, to another host.
  cm::ConnectionRecord publish(std::uint32_t i, const IpAddress& remote = kElsewhere) {
    const cm::ConnectionRecord record{.local_id = packet::CommId::of_slot(member.slot(), i),
                                      .remote_id = packet::CommId{0xfedc'0000 + i},
                                      .route = {.local = kHere, .remote = remote},
                                      .remote_qpn = Qpn{0x123},
                                      .response_interval = 4s,
                                      .max_retries = 15};
    records.publish(record);
    return record;
  }
  std::size_t rows_in_use() {
    std::size_t count = 0;
    for (std::size_t i = 0; i < rows().bound(); ++i) {
      const auto row = rows().look(i);
      count += row && (row->slot() == member.slot() || !member.registry->held(row->slot()));
    }
    return count;
  }

  Member member;
  MemoryNetwork network;
  std::vector<std::uint8_t> room = std::vector<std::uint8_t>(MemoryWire::kRoomBytes);
  Wires wires;
  SystemEntropy entropy;
  SharedConnections records;
  cm::ConnectionManager manager;
  std::vector<IpAddress> opened;
  OrphanSearch search;
};

std::uint32_t die(std::unique_ptr<Process>&& process) {
  const std::uint32_t slot = process->member.slot();
  process.reset();
  return slot;
}

void deliver(Process& from, Process& to) {
  for (const auto& mad : std::exchange(from.manager.outbox(), {})) {
    to.manager.receive(
        {.route = {.local = mad.route.remote, .remote = mad.route.local}, .bytes = mad.bytes},
        kNow);
  }
}

cm::Event told(Process& process) {
  auto events = std::exchange(process.manager.events(), {});
  EXPECT_EQ(events.size(), 1u);
  return events.empty() ? cm::Event{} : events.front();
}

/// Returns the passive one's.
cm::ConnectionId connect(Process& active, Process& passive) {
  const ServiceId service{PortSpace::tcp, 7471};
  EXPECT_TRUE(passive.manager.listen({.service = service, .backlog = 4}).ok());
  const auto id = active.manager.connect({.source = kHere,
                                          .destination = kHere,
                                          .service = service,
                                          .source_port = 40'000,
                                          .ca_guid = 1,
                                          .offer = {.qpn = Qpn{0x111}},
                                          .mtu = packet::PathMtu::mtu_1024},
                                         kNow);
  EXPECT_TRUE(id.ok());
  deliver(active, passive);
  const auto asked = told(passive).id;
  EXPECT_TRUE(
      passive.manager.accept(asked, {.ca_guid = 2, .offer = {.qpn = Qpn{0x222}}}, kNow).ok());
  deliver(passive, active);
  EXPECT_EQ(told(active).kind, EventKind::connect_response);
  EXPECT_TRUE(active.manager.establish(*id).ok());
  deliver(active, passive);
  EXPECT_EQ(told(passive).kind, EventKind::established);
  return asked;
}

TEST(OrphanSearch, AdoptsConnectionsToOtherHosts) {
  Process survivor;
  auto dead = std::make_unique<Process>();
  const auto record = dead->publish(1);
  survivor.look(kNow);
  EXPECT_EQ(survivor.manager.orphans(), 0u) << "its process lives";

  survivor.see_death_of(die(std::move(dead)));
  ASSERT_EQ(survivor.manager.orphans(), 1u);
  EXPECT_EQ(survivor.opened, std::vector{kHere});
  survivor.manager.expire(host::now());
  ASSERT_EQ(survivor.manager.outbox().size(), 1u);
  const auto& mad = survivor.manager.outbox().front();
  EXPECT_EQ(mad.route, record.route);
  const auto dreq =
      std::get<packet::CmDreq>(std::get<packet::CmMad>(packet::decode_cm(mad.bytes)).message);
  EXPECT_EQ(dreq.local_id, record.local_id);
  EXPECT_EQ(dreq.remote_id, record.remote_id);
  EXPECT_EQ(dreq.remote_qpn, record.remote_qpn);
}

TEST(OrphanSearch, OneOfTheSurvivorsAdopts) {
  Process one, two;
  auto dead = std::make_unique<Process>();
  for (std::uint32_t i = 1; i <= 100; ++i) dead->publish(i);
  const std::uint32_t slot = die(std::move(dead));
  two.member.registry->meet(slot);
  one.see_death_of(slot);
  two.look(host::now());
  EXPECT_EQ(one.manager.orphans() + two.manager.orphans(), 100u);
}

TEST(OrphanSearch, TheNextOneGoesOnIfThatOneDiesToo) {
  Process last;
  auto adopter = std::make_unique<Process>();
  auto dead = std::make_unique<Process>();
  for (std::uint32_t i = 1; i <= 10; ++i) dead->publish(i);
  const std::uint32_t slot = die(std::move(dead));
  adopter->member.registry->meet(slot);
  adopter->look(host::now());
  EXPECT_EQ(adopter->manager.orphans(), 10u);
  last.see_death_of(die(std::move(adopter)));
  EXPECT_EQ(last.manager.orphans(), 10u);
}

TEST(OrphanSearch, AJoinerFindsWhatNobodyAdopted) {
  Process blind;  // it never looks
  auto dead = std::make_unique<Process>();
  dead->publish(1);
  die(std::move(dead));
  Process joiner;
  EXPECT_EQ(joiner.manager.orphans(), 1u);
}

TEST(OrphanSearch, EndsAConnectionToThisProcessHere) {
  Process survivor;
  auto dead = std::make_unique<Process>();
  const auto id = connect(*dead, survivor);
  EXPECT_TRUE(survivor.member.registry->table().held(dead->member.slot()));
  survivor.see_death_of(die(std::move(dead)));
  const cm::Event event = told(survivor);
  EXPECT_EQ(event.kind, EventKind::disconnected);
  EXPECT_EQ(event.id, id);
  EXPECT_EQ(survivor.manager.orphans(), 0u);
  EXPECT_TRUE(survivor.manager.outbox().empty());
}

TEST(OrphanSearch, EitherEndSeesTheOthersDeath) {
  auto server = std::make_unique<Process>();
  Process client;
  connect(client, *server);
  ASSERT_TRUE(client.member.registry->has_met(server->member.slot()));
  client.see_death_of(die(std::move(server)));
  EXPECT_EQ(told(client).kind, EventKind::disconnected);
}

TEST(OrphanSearch, APeerOnThisHostMayEndItFirst) {
  Process peer, third;
  auto dead = std::make_unique<Process>();
  connect(*dead, peer);
  const std::uint32_t slot = die(std::move(dead));
  third.member.registry->meet(slot);
  const Instant now = host::now();
  third.look(now);
  ASSERT_EQ(third.manager.orphans(), 1u);
  third.manager.expire(now);
  EXPECT_TRUE(third.manager.outbox().empty());
  EXPECT_GE(third.manager.next_deadline(), now + 100ms);

  peer.see_death_of(slot);
  EXPECT_EQ(told(peer).kind, EventKind::disconnected);
  third.manager.expire(third.manager.next_deadline());
  EXPECT_TRUE(third.manager.outbox().empty()) << "it has been told";
  EXPECT_EQ(third.manager.orphans(), 0u);
}

TEST(OrphanSearch, WaitsUntilNothingIsReceivedAnyMore) {
  Process survivor;
  auto dead = std::make_unique<Process>();
  connect(*dead, survivor);
  const std::uint32_t slot = die(std::move(dead));
  ASSERT_TRUE(test::run_until<Member>({&survivor.member},
                                      [&] { return survivor.search.next_deadline() != kNever; }));
  EXPECT_FALSE(survivor.member.registry->held(slot));
  const Instant wanted = survivor.search.next_deadline();
  survivor.search.work(wanted, false);
  EXPECT_TRUE(survivor.manager.events().empty());
  survivor.search.work(wanted, true);
  EXPECT_EQ(told(survivor).kind, EventKind::disconnected);
}

TEST(OrphanSearch, NothingIsLeftWhereTheAddressCannotBeOpened) {
  Process survivor{Error{EADDRINUSE, "another user has it"}};
  auto dead = std::make_unique<Process>();
  dead->publish(1);
  survivor.see_death_of(die(std::move(dead)));
  EXPECT_EQ(survivor.manager.orphans(), 0u);
  EXPECT_EQ(survivor.rows_in_use(), 0u);
}

TEST(OrphanSearch, SurvivesWhatADyingProcessMayHaveWritten) {
  Process survivor, server;
  auto client = std::make_unique<Process>();
  connect(*client, server);
  std::mt19937_64 random{11};
  auto dead = std::make_unique<Process>();
  for (std::uint32_t i = 1; i <= 200; ++i) {
    dead->publish(i);
    auto& rows = survivor.rows();
    for (std::size_t at = 0; at < rows.bound(); ++at) {
      const auto row = rows.look(at);
      if (!row || row->slot() != dead->member.slot()) continue;
      // Some words stay right, so that some rows can be read.
      for (std::size_t word = 0; word < rows.rows[at].words.size(); ++word) {
        if (random() % 8 == 0) rows.rows[at].words[word] = random();
      }
    }
  }
  survivor.see_death_of(die(std::move(dead)));
  EXPECT_LE(survivor.manager.orphans(), 200u);
  for (int i = 0; survivor.manager.next_deadline() != kNever; ++i) {
    ASSERT_LT(i, 10'000);
    survivor.manager.expire(survivor.manager.next_deadline());
    survivor.manager.outbox().clear();
  }
  EXPECT_EQ(survivor.rows_in_use(), 0u);
  EXPECT_TRUE(server.manager.events().empty()) << "its client lives";
}

}  // namespace
}  // namespace verbena::host
