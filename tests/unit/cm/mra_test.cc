// MRA: the peer is slow.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Mra : public TwoHosts {};

TEST_F(Mra, PostponesTheRetriesOnce) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_EQ(b.told().size(), 1u);
  pass_to_deadline(a);
  pass_to_deadline(a);
  (void)a.sent();  // the early ones
  pass_to_deadline(a);
  deliver(a.sent_one());  // the same again: the owner of B is slow
  const auto mra = b.sent_one();
  EXPECT_EQ(message_of<packet::CmMra>(mra).message, packet::CmAnswered::req);
  EXPECT_EQ(message_of<packet::CmMra>(mra).service_timeout.value(), 24);
  deliver(mra);
  EXPECT_EQ(a.cm.next_deadline() - now, Duration{4096ll << 24});
  pass(1s);
  deliver(mra);
  EXPECT_EQ(a.cm.next_deadline() - now, Duration{4096ll << 24} - 1s) << "a second MRA adds nothing";
  EXPECT_TRUE(b.told().empty());
}

TEST_F(Mra, ARetriedRepGetsMraThenRtu) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  deliver(rep);
  EXPECT_EQ(a.told().size(), 1u);
  now += kReplyInterval;
  deliver(rep);
  EXPECT_EQ(message_of<packet::CmMra>(a.sent_one()).message, packet::CmAnswered::rep);
  ASSERT_TRUE(a.cm.establish(*id, {3}).ok());
  const auto rtu = a.sent_one();
  deliver(rep);
  EXPECT_EQ(a.sent_one().bytes, rtu.bytes);
  EXPECT_TRUE(a.told().empty());
}

/// From half of the peer's interval on, a retry is one that the peer counts.
TEST_F(Mra, IsSentFromHalfOfTheIntervalOn) {
  listen();
  const auto id = a.cm.connect(request(), now);
  const auto req = a.sent_one();
  deliver(req);
  const auto passive = b.told_one().id;
  const Duration half_request{2048ll * ((1 << 20) + (1 << 19))};
  now += half_request - 1ns;
  deliver(req);
  EXPECT_TRUE(b.sent().empty());
  now += 1ns;
  deliver(req);
  EXPECT_EQ(message_of<packet::CmMra>(b.sent_one()).message, packet::CmAnswered::req);

  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  const auto rep = b.sent_one();
  deliver(rep);
  const Duration half_reply{2048ll << 20};
  now += half_reply - 1ns;
  deliver(rep);
  EXPECT_TRUE(a.sent().empty());
  now += 1ns;
  deliver(rep);
  EXPECT_EQ(message_of<packet::CmMra>(a.sent_one()).message, packet::CmAnswered::rep);
  EXPECT_EQ(a.cm.state(*id), State::rep_rcvd);
}

/// After a MRA the peer retries its request for a quarter of an hour.
TEST_F(Mra, AfterItARejIsKeptLonger) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  const auto id = b.told_one().id;
  now += kRequestInterval / 2;
  deliver(req);
  deliver(b.sent_one());  // the MRA
  ASSERT_TRUE(b.cm.reject(id, {}).ok());
  (void)b.sent();  // lost
  Duration waited{};
  while (a.cm.connections() != 0) {
    pass_to_deadline(a);
    waited = now - Instant{1h};
    b.cm.expire(now);
    for (const auto& mad : a.sent()) {
      if (decoded(mad).message.index() == 0) deliver(mad);  // each REQ comes, each REJ is lost
    }
    (void)b.sent();
    EXPECT_TRUE(b.told().empty()) << "after " << waited.count() << " ns";
  }
  EXPECT_GT(waited, 17min);
}

}  // namespace
}  // namespace verbena::cm
