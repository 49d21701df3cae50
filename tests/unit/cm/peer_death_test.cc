// The process at the other end is of the same host, and is killed.

#include "cm/peer_death.h"

#include "tests/unit/cm/fake_records.h"
#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

/// `a` is killed. Its record is what the owner of b's connection finds.
class PeerDeath : public TwoHosts {
 protected:
  PeerDeath() { a.cm.keep_records(&of_a); }

  ConnectionRecord record() {
    EXPECT_EQ(table.size(), 1u);
    return table.begin()->second;
  }
  void die() {
    ASSERT_TRUE(b.cm.is_peer(record()));
    b.cm.peer_died(record(), now);
  }

  FakeTable table;
  FakeRecords of_a{table};
};

TEST_F(PeerDeath, EndsAConnectionAsADreqWould) {
  const auto ids = established();
  die();
  const Event event = b.told_one();
  EXPECT_EQ(event.kind, EventKind::disconnected);
  EXPECT_EQ(event.id, ids.b);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(b.cm.state(ids.b), State::dreq_rcvd);

  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  EXPECT_TRUE(b.sent().empty()) << "nobody waits for a DREP";
  pass(3s);
  EXPECT_EQ(b.told_one().kind, EventKind::timewait_exit);
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(PeerDeath, IsToldOnce) {
  const auto ids = established();
  die();
  (void)b.told_one();
  die();
  EXPECT_TRUE(b.told().empty());
  b.cm.destroy(ids.b, now);
  EXPECT_TRUE(b.sent().empty());
  die();
  EXPECT_TRUE(b.told().empty());
}

TEST_F(PeerDeath, IsTheAnswerToADreq) {
  const auto ids = established();
  ASSERT_TRUE(b.cm.disconnect(ids.b, {}, now).ok());
  (void)b.sent();
  die();
  const Event event = b.told_one();
  EXPECT_EQ(event.kind, EventKind::disconnected);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(b.cm.state(ids.b), State::timewait);
}

TEST_F(PeerDeath, BeforeTheRtuCame) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  ASSERT_TRUE(a.cm.establish(*id).ok());
  (void)a.sent();  // lost
  die();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  EXPECT_TRUE(b.sent().empty());
}

TEST_F(PeerDeath, ConcernsOnlyTheConnectionThatTheRecordNames) {
  const auto ids = established();
  const auto changed = [this](auto change) {
    ConnectionRecord r = record();
    change(r);
    return b.cm.is_peer(r);
  };
  const auto stranger = IpAddress::v4({10, 0, 0, 9});
  EXPECT_FALSE(changed([](auto& r) { r.local_id = packet::CommId{r.local_id.value() ^ 1}; }));
  EXPECT_FALSE(changed([](auto& r) { r.remote_id = packet::CommId{r.remote_id.value() ^ 1}; }));
  EXPECT_FALSE(changed([&](auto& r) { r.route.local = stranger; }));
  EXPECT_FALSE(changed([&](auto& r) { r.route.remote = stranger; }));
  EXPECT_FALSE(changed([](auto& r) { r.remote_qpn = Qpn{0x999}; }));
  EXPECT_TRUE(changed([](auto&) {}));
  EXPECT_EQ(b.cm.state(ids.b), State::established);
}

/// Its owner is about to establish it; the DREQ that another process sends comes again.
TEST_F(PeerDeath, LeavesAConnectionThatIsNotEstablishedYet) {
  FakeTable table_of_b;
  FakeRecords of_b{table_of_b};
  b.cm.keep_records(&of_b);
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  EXPECT_FALSE(a.cm.is_peer(table_of_b.begin()->second));
}

}  // namespace
}  // namespace verbena::cm
