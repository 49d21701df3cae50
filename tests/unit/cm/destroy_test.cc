// The owner gives up a connection.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Destroy : public TwoHosts {};

TEST_F(Destroy, SendsDreqUntilThePeerAnswers) {
  const auto ids = established();
  a.cm.destroy(ids.a, now);
  (void)a.sent();  // lost
  pass_to_deadline(a);
  settle();
  EXPECT_EQ(b.told_one().kind, EventKind::disconnected);
  b.cm.destroy(ids.b, now);
  settle();
  pass(3s);
  EXPECT_TRUE(a.told().empty());
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

TEST_F(Destroy, WorksInEveryState) {
  // A request that nobody answered, one that was told to the owner, one that was accepted.
  listen();
  const auto req_sent = a.cm.connect(request(), now);
  deliver(a.sent());
  const auto req_rcvd = b.told_one().id;
  b.cm.destroy(req_rcvd, now);
  settle();
  EXPECT_EQ(a.told_one().status, 28);
  EXPECT_EQ(a.cm.state(*req_sent), std::nullopt);

  const auto again = a.cm.connect(request(), now);
  settle();
  const auto rep_sent = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(rep_sent, reply(), now).ok());
  deliver(b.sent());
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  a.cm.destroy(*again, now);
  settle();
  EXPECT_EQ(b.told_one().status, 28);
  EXPECT_EQ(a.cm.connections() + b.cm.connections(), 0u);
}

}  // namespace
}  // namespace verbena::cm
