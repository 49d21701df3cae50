// REJ: requests and replies that are refused or taken back.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Rej : public TwoHosts {};

TEST_F(Rej, CarriesReasonInfoAndPrivateData) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle();
  ASSERT_TRUE(
      b.cm.reject(b.told_one().id, {.additional_info = {9, 8}, .private_data = {6, 6, 6}}).ok());
  settle();
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, 28);
  EXPECT_EQ(told.additional_info, (std::vector<std::uint8_t>{9, 8}));
  EXPECT_EQ(told.private_data.size(), 148u);
  EXPECT_EQ(told.private_data[2], 6);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

TEST_F(Rej, TheActiveEndMayRejectTheRep) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  ASSERT_TRUE(a.cm.reject(*id, {.reason = RejectReason::no_qp}).ok());
  settle();
  const auto events = b.told();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::rejected);
  EXPECT_EQ(events[0].status, 1);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

/// The kernel would take it for a new request.
TEST_F(Rej, ARejectedReqIsRejectedAgain) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_TRUE(b.cm.reject(b.told_one().id, {.private_data = {1}}).ok());
  const auto rej = b.sent_one();
  pass(60s);
  deliver(req);
  EXPECT_EQ(b.sent_one().bytes, rej.bytes);
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(b.cm.answers(), 1u);
  pass(60s);
  EXPECT_EQ(b.cm.answers(), 0u);
}

TEST_F(Rej, ATimeoutRejEndsTheRequest) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  a.cm.destroy(*id, now);
  const auto rej = a.sent_one();
  EXPECT_EQ(message_of<packet::CmRej>(rej).remote_id, CommId{});
  deliver(rej);
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.id, passive);
  EXPECT_EQ(told.status, 4);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
  EXPECT_TRUE(a.told().empty());
}

TEST_F(Rej, ARepToNobodyIsRejected) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  a.cm.destroy(*id, now);
  (void)a.sent();  // lost
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  const Event told = b.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, 6);
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(Rej, AnRtuToATakenBackRepGetsTheRej) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  b.cm.destroy(passive, now);
  (void)b.sent();  // lost
  ASSERT_TRUE(a.cm.establish(*id).ok());
  (void)a.told();
  settle();
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, 28);
  EXPECT_EQ(a.cm.state(*id), State::timewait);
}

}  // namespace
}  // namespace verbena::cm
