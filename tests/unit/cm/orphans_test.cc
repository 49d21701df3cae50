// A process is killed; another one of its host disconnects its connections.

#include "cm/orphans.h"

#include "tests/unit/cm/fake_records.h"
#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

/// `a` is killed; `neighbour` is of the same host.
class OrphansTest : public TwoHosts {
 protected:
  OrphansTest() {
    a.cm.keep_records(&of_a);
    neighbour.cm.keep_records(&of_neighbour);
    other.cm.keep_records(&of_other);
  }

  /// The connection of the killed process that the table has.
  ConnectionRecord record() {
    EXPECT_EQ(table.size(), 1u);
    return table.begin()->second;
  }
  /// A message from b to the address of the killed process reaches `to`.
  void deliver_orphaned(TestHost& to, const OutgoingMad& mad) {
    to.cm.receive({.route = {.local = mad.route.remote, .remote = mad.route.local},
                   .bytes = mad.bytes,
                   .orphaned = true},
                  now);
  }
  std::vector<OutgoingMad> sent_after(Duration time) {
    now += time;
    neighbour.cm.expire(now);
    return neighbour.sent();
  }

  FakeTable table;
  TestHost neighbour{7, a.address};
  TestHost other{8, a.address};
  FakeRecords of_a{table}, of_neighbour{table}, of_other{table};
};

TEST_F(OrphansTest, AConnectionIsPublishedWhileAPeerMayTakeItForEstablished) {
  FakeTable table_of_b;
  FakeRecords of_b{table_of_b};
  b.cm.keep_records(&of_b);
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  EXPECT_TRUE(table.empty() && table_of_b.empty());
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  EXPECT_EQ(table_of_b.size(), 1u);
  settle();
  EXPECT_TRUE(table.empty());
  ASSERT_TRUE(a.cm.establish(*id).ok());
  settle();
  const ConnectionRecord& of_one = record();
  const ConnectionRecord& of_two = table_of_b.begin()->second;
  EXPECT_EQ(of_one.local_id, of_two.remote_id);
  EXPECT_EQ(of_one.remote_id, of_two.local_id);
  EXPECT_EQ(of_one.route, (Route{a.address, b.address}));
  EXPECT_EQ(of_one.remote_qpn, Qpn{0x222});
  EXPECT_EQ(of_two.remote_qpn, Qpn{0x111});

  ASSERT_TRUE(a.cm.disconnect(*id, {}, now).ok());
  settle();
  EXPECT_EQ(table.size(), 1u) << "without a DREP, another process has to go on";
  ASSERT_TRUE(b.cm.disconnect(passive, {}, now).ok());
  settle();
  EXPECT_TRUE(table.empty() && table_of_b.empty());
}

TEST_F(OrphansTest, APeerIsDisconnectedAndAnswers) {
  const auto ids = established();
  neighbour.cm.adopt(record(), now);
  EXPECT_EQ(neighbour.cm.next_deadline(), now);
  neighbour.cm.expire(now);
  deliver(neighbour.sent_one());
  const Event event = b.told_one();
  EXPECT_EQ(event.kind, EventKind::disconnected);
  EXPECT_EQ(event.id, ids.b);
  EXPECT_EQ(event.status, 0);

  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  deliver_orphaned(neighbour, b.sent_one());
  EXPECT_EQ(neighbour.cm.orphans(), 0u);
  EXPECT_EQ(neighbour.cm.next_deadline(), kNever);
  EXPECT_EQ(neighbour.cm.counters().drop_unknown_id, 0u);
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(neighbour.told().empty());
}

TEST_F(OrphansTest, TheDreqIsRetriedAsEver) {
  established();
  const ConnectionRecord of_dead = record();
  neighbour.cm.adopt(of_dead, now);
  const Instant begin = now;
  std::size_t sent = 0;
  while (neighbour.cm.next_deadline() != kNever) {
    now = neighbour.cm.next_deadline();
    neighbour.cm.expire(now);
    sent += neighbour.sent().size();
  }
  EXPECT_EQ(sent, 1u + RetrySchedule::kEarly.size() + of_dead.max_retries);
  EXPECT_EQ(now - begin, of_dead.response_interval * (of_dead.max_retries + 1));
  EXPECT_EQ(neighbour.cm.orphans(), 0u);
  EXPECT_EQ(neighbour.cm.counters().timeouts, 1u);
  EXPECT_TRUE(table.empty());
}

TEST_F(OrphansTest, TheAnswerMayReachAnyProcessOfTheHost) {
  const auto ids = established();
  neighbour.cm.adopt(record(), now);
  neighbour.cm.expire(now);
  deliver(neighbour.sent_one());
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  deliver_orphaned(other, b.sent_one());
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(other.cm.counters().drop_unknown_id, 0u);
  EXPECT_TRUE(sent_after(1min).empty());
  EXPECT_EQ(neighbour.cm.orphans(), 0u);
}

TEST_F(OrphansTest, APeerThatBeginsIsAnswered) {
  const auto ids = established();
  neighbour.cm.adopt(record(), now + 200ms);
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  deliver_orphaned(neighbour, b.sent_one());
  deliver(neighbour.sent_one());  // DREP
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_EQ(neighbour.cm.orphans(), 0u);
}

TEST_F(OrphansTest, OnlyThePeerEndsIt) {
  established();
  const ConnectionRecord of_dead = record();
  neighbour.cm.adopt(of_dead, now);
  neighbour.cm.expire(now);
  (void)neighbour.sent();
  const auto drep = [&](packet::CommId remote_id) {
    return packet::encode_cm(
        {1, packet::CmDrep{.local_id = remote_id, .remote_id = of_dead.local_id}});
  };
  const IpAddress stranger = IpAddress::v4({10, 0, 0, 9});
  const auto forged = drep(of_dead.remote_id);
  neighbour.cm.receive(
      {.route = {.local = a.address, .remote = stranger}, .bytes = forged, .orphaned = true}, now);
  const auto wrong = drep(packet::CommId{of_dead.remote_id.value() ^ 1});
  neighbour.cm.receive(
      {.route = {.local = a.address, .remote = b.address}, .bytes = wrong, .orphaned = true}, now);
  EXPECT_EQ(neighbour.cm.orphans(), 1u);
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(neighbour.cm.counters().drop_unknown_id, 2u);
}

TEST_F(OrphansTest, WhereNobodyIsItIsGivenUp) {
  established();
  neighbour.cm.adopt(record(), now);
  neighbour.cm.expire(now);
  const OutgoingMad dreq = neighbour.sent_one();
  for (int i = 0; i < 100 && neighbour.cm.orphans() != 0; ++i) {
    neighbour.cm.undelivered(
        {.route = {.local = dreq.route.local, .remote = dreq.route.remote}, .bytes = dreq.bytes},
        111, now);
    (void)sent_after(100ms);
  }
  EXPECT_EQ(neighbour.cm.orphans(), 0u);
  EXPECT_EQ(neighbour.cm.counters().undelivered, 1u);
  EXPECT_TRUE(table.empty());
}

TEST_F(OrphansTest, ManyTakeTurns) {
  constexpr std::uint32_t kCount = 1000;
  established();
  ConnectionRecord one = record();
  table.clear();
  for (std::uint32_t i = 1; i <= kCount; ++i) {
    one.local_id = packet::CommId::of_slot(5, i);
    table.emplace(one.local_id.value(), one);
    neighbour.cm.adopt(one, now);
  }
  std::size_t sent = sent_after(Duration{}).size();
  EXPECT_EQ(sent, Orphans::kBurst);
  while (sent < kCount) {
    const auto burst = sent_after(Orphans::kBurstPause).size();
    ASSERT_GT(burst, 0u);
    ASSERT_LE(burst, Orphans::kBurst);
    sent += burst;
  }
  EXPECT_EQ(sent, kCount);
}

TEST_F(OrphansTest, WhatTheDeadOneSaysIsBounded) {
  established();
  ConnectionRecord wild = record();
  wild.response_interval = 24h;
  wild.max_retries = 255;
  neighbour.cm.adopt(wild, now);
  neighbour.cm.adopt(wild, now);
  EXPECT_EQ(neighbour.cm.orphans(), 1u);
  EXPECT_EQ(neighbour.cm.counters().orphans_dropped, 1u);
  const Instant begin = now;
  std::size_t sent = 0;
  while (neighbour.cm.next_deadline() != kNever) {
    now = neighbour.cm.next_deadline();
    neighbour.cm.expire(now);
    sent += neighbour.sent().size();
  }
  EXPECT_LE(sent, 1u + RetrySchedule::kEarly.size() + 15u);
  EXPECT_LT(now - begin, 20min);
}

}  // namespace
}  // namespace verbena::cm
