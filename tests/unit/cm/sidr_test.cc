// Service id resolution.

#include <cerrno>

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class SidrTest : public TwoHosts {
 protected:
  static ServiceId udp() { return {PortSpace::udp, 7174}; }
  [[nodiscard]] SidrRequestParameters ask() const {
    return {.source = a.address,
            .destination = b.address,
            .service = udp(),
            .source_port = 1234,
            .private_data = {1, 2}};
  }
  void listen_udp() { ASSERT_TRUE(b.cm.listen({.service = udp(), .datagram = true}).ok()); }
};

TEST_F(SidrTest, FindsTheQueuePair) {
  listen_udp();
  const auto id = a.cm.sidr_request(ask(), now);
  ASSERT_TRUE(id.ok());
  settle();
  const Event asked = b.told_one();
  EXPECT_EQ(asked.kind, EventKind::connect_request);
  EXPECT_TRUE(asked.datagram);
  EXPECT_EQ(asked.offer.remote, (Endpoint{a.address, 1234}));
  EXPECT_EQ(asked.offer.local, (Endpoint{b.address, 7174}));
  EXPECT_EQ(asked.private_data.size(), 180u);
  EXPECT_EQ(asked.private_data[1], 2);
  ASSERT_TRUE(
      b.cm.sidr_reply(asked.id, {.qpn = Qpn{0x37a}, .qkey = 0x0123'4567, .private_data = {9}})
          .ok());
  settle();
  const Event found = a.told_one();
  EXPECT_EQ(found.kind, EventKind::established);
  EXPECT_EQ(found.id, *id);
  EXPECT_TRUE(found.datagram);
  EXPECT_EQ(found.offer.qpn, Qpn{0x37a});
  EXPECT_EQ(found.offer.qkey, 0x0123'4567u);
  EXPECT_EQ(found.private_data.size(), 136u);
  EXPECT_EQ(found.private_data[0], 9);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

TEST_F(SidrTest, StatusSaysWhyNot) {
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  settle_without_listener();
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.status, 1);  // nobody listens

  listen_udp();
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  settle();
  ASSERT_TRUE(b.cm.sidr_reply(b.told_one().id, {.status = packet::SidrStatus::no_qp}).ok());
  settle();
  EXPECT_EQ(a.told_one().status, 3);

  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  settle();
  b.cm.destroy(b.told_one().id, now);
  settle();
  EXPECT_EQ(a.told_one().status, 2);
}

TEST_F(SidrTest, RetriesAreOneRequest) {
  listen_udp();
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  deliver(req);
  const auto id = b.told_one().id;
  ASSERT_TRUE(b.cm.sidr_reply(id, {.qpn = Qpn{5}}).ok());
  const auto rep = b.sent_one();
  pass(30s);
  deliver(req);
  EXPECT_EQ(b.sent_one().bytes, rep.bytes);
  EXPECT_TRUE(b.told().empty());
  deliver(rep);
  deliver(rep);
  EXPECT_EQ(a.told().size(), 1u);
  pass(60s);
  EXPECT_EQ(b.cm.answers(), 0u);
}

TEST_F(SidrTest, SilenceIsUnreachable) {
  const auto id = a.cm.sidr_request(ask(), now);
  const Instant begin = now;
  for (int i = 0; i < 18; ++i) {  // two of them early
    EXPECT_EQ(a.sent().size(), 1u);
    EXPECT_TRUE(a.told().empty());
    pass_to_deadline(a);
  }
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.id, *id);
  EXPECT_EQ(told.status, -ETIMEDOUT);
  EXPECT_EQ(now - begin, 16 * 4096ms);
  EXPECT_EQ(a.cm.connections(), 0u);
}

TEST_F(SidrTest, ADestroyedRequestHearsNothing) {
  listen_udp();
  const auto id = a.cm.sidr_request(ask(), now);
  settle();
  ASSERT_TRUE(b.cm.sidr_reply(b.told_one().id, {}).ok());
  a.cm.destroy(*id, now);
  settle();
  EXPECT_TRUE(a.told().empty());
  EXPECT_EQ(a.cm.counters().drop_unknown_id, 1u);
}

TEST_F(SidrTest, LimitsAndTurns) {
  auto p = ask();
  p.private_data.assign(181, 0);
  EXPECT_FALSE(a.cm.sidr_request(p, now).ok());
  p.service = ServiceId{0x1000'0000'0000'0003};
  p.private_data.assign(216, 0);
  const auto id = a.cm.sidr_request(p, now);
  ASSERT_TRUE(id.ok());
  EXPECT_FALSE(a.cm.sidr_reply(*id, {}).ok());
  EXPECT_FALSE(a.cm.sidr_reply(ConnectionId{99}, {}).ok());
  listen_udp();
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  settle();
  SidrReplyParameters reply;
  reply.private_data.assign(137, 0);
  const auto asked = b.told_one().id;
  EXPECT_FALSE(b.cm.sidr_reply(asked, reply).ok());
  EXPECT_FALSE(b.cm.accept(asked, {}, now).ok());
  reply.private_data.assign(136, 0);
  EXPECT_TRUE(b.cm.sidr_reply(asked, reply).ok());
}

TEST_F(SidrTest, TheBacklogCountsDatagramsToo) {
  ASSERT_TRUE(b.cm.listen({.service = udp(), .datagram = true, .backlog = 1}).ok());
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  ASSERT_TRUE(a.cm.sidr_request(ask(), now).ok());
  settle();
  const auto first = b.told_one().id;
  EXPECT_EQ(b.cm.counters().drop_backlog, 1u);
  b.cm.taken(first);
  pass_to_deadline(a);
  settle();
  EXPECT_EQ(b.told().size(), 1u);
}

}  // namespace
}  // namespace verbena::cm
