// Messages of strangers, of other processes, and such as make no sense.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class ConnectionManagerTest : public TwoHosts {};

/// Whoever sends from another address isn't the peer, whatever ids he knows.
TEST_F(ConnectionManagerTest, StrangersChangeNothing) {
  const auto ids = established();
  const auto stranger = IpAddress::v4({10, 0, 0, 66});
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  b.cm.receive({.route = {.local = b.address, .remote = stranger}, .bytes = dreq.bytes}, now);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  const auto m = message_of<packet::CmDreq>(dreq);
  const auto rej =
      packet::encode_cm({1, packet::CmRej{.local_id = m.local_id, .remote_id = m.remote_id}});
  b.cm.receive({.route = {.local = b.address, .remote = stranger}, .bytes = rej}, now);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
  EXPECT_TRUE(b.told().empty());
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_source, 1u);
}

TEST_F(ConnectionManagerTest, BytesThatAreNoMessageAreCounted) {
  for (const std::size_t size : {0u, 24u, 255u, 256u}) {
    const std::vector<std::uint8_t> zeros(size);
    b.cm.receive({.route = {.local = b.address, .remote = a.address}, .bytes = zeros}, now);
  }
  EXPECT_EQ(b.cm.counters().drop_malformed[0], 3u);  // size
  EXPECT_EQ(b.cm.counters().drop_malformed[1], 1u);  // base version
  EXPECT_TRUE(b.sent().empty());
}

/// Who gave the reply has nothing to say to one.
TEST_F(ConnectionManagerTest, ARepToThePassiveEndIsDropped) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto m = message_of<packet::CmDreq>(a.sent_one());
  deliver(a, 1, packet::CmRep{.local_id = m.local_id, .remote_id = m.remote_id});
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_state, 1u);
  EXPECT_EQ(b.cm.state(ids.b), State::established);
}

TEST_F(ConnectionManagerTest, AlternatePathsAreRefused) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto m = message_of<packet::CmDreq>(a.sent_one());
  deliver(a, 7, packet::CmLap{.local_id = m.local_id, .remote_id = m.remote_id});
  const auto known = b.sent_one();
  EXPECT_EQ(message_of<packet::CmApr>(known).status, packet::AprStatus::unsupported);
  EXPECT_EQ(decoded(known).transaction, 7u);
  deliver(a, 7,
          packet::CmLap{.local_id = m.local_id, .remote_id = CommId{m.remote_id.value() ^ 1}});
  EXPECT_EQ(message_of<packet::CmApr>(b.sent_one()).status, packet::AprStatus::invalid_comm_id);
}

TEST_F(ConnectionManagerTest, MessagesToOtherProcessesAreDropped) {
  const CommId other = CommId::of_slot(77, 1);
  deliver(a, 1, packet::CmDreq{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmRep{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmRej{.local_id = CommId{1}, .remote_id = other});
  deliver(a, 1, packet::CmSidrRep{.request_id = other});
  EXPECT_TRUE(b.sent().empty());
  EXPECT_EQ(b.cm.counters().drop_other_slot, 4u);
}

class Orphans : public TwoHosts {
 protected:
  /// What it sent to the host that shares B's address.
  [[nodiscard]] static IncomingMad orphaned(const OutgoingMad& mad) {
    return {.route = {.local = mad.route.remote, .remote = mad.route.local},
            .bytes = mad.bytes,
            .orphaned = true};
  }
  TestHost neighbour{11, b.address};
};

/// A process that shares the address of one that was killed speaks for it.
TEST_F(Orphans, ADreqGetsADrep) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  neighbour.cm.receive(orphaned(dreq), now);
  deliver(neighbour.sent_one());
  EXPECT_EQ(a.told_one().kind, EventKind::disconnected);
}

TEST_F(Orphans, ARepGetsARej) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  deliver(a.sent());
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  TestHost other{7, a.address};
  other.cm.receive(
      {.route = {.local = a.address, .remote = b.address}, .bytes = rep.bytes, .orphaned = true},
      now);
  deliver(other.sent_one());
  EXPECT_EQ(b.told_one().kind, EventKind::rejected);
}

TEST_F(Orphans, NobodyElseAnswersForALivingProcess) {
  const auto ids = established();
  ASSERT_TRUE(a.cm.disconnect(ids.a, {}, now).ok());
  const auto dreq = a.sent_one();
  auto mad = orphaned(dreq);
  mad.orphaned = false;
  neighbour.cm.receive(mad, now);
  EXPECT_TRUE(neighbour.sent().empty());
  EXPECT_EQ(neighbour.cm.counters().drop_other_slot, 1u);
}

}  // namespace
}  // namespace verbena::cm
