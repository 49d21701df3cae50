// Retries of requests that a peer refuses at once because nobody listens.

#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class ListenerRetryTest : public TwoHosts {
 protected:
  [[nodiscard]] SidrRequestParameters resolution() const {
    return {.source = a.address,
            .destination = b.address,
            .service = {PortSpace::udp, kPort},
            .source_port = 40'000};
  }
  /// Until the request is over, or 1000 retries. Returns their number.
  int count_retries() {
    int retries = 0;
    for (settle(); a.cm.connections() > 0 && retries < 1000; settle()) {
      pass_to_deadline(a);
      ++retries;
    }
    return retries;
  }
};

TEST_F(ListenerRetryTest, AReqIsRetriedForAMomentAndThenRefused) {
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const Instant begin = now;
  EXPECT_EQ(count_retries(), ListenerRetry::kGiveUpAfter / ListenerRetry::kInterval);
  EXPECT_EQ(now - begin, ListenerRetry::kGiveUpAfter);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.status, static_cast<int>(RejectReason::invalid_service_id));
}

TEST_F(ListenerRetryTest, AListenerThatIsOpenedMeanwhileGetsTheReq) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  settle();
  pass_to_deadline(a);
  settle();
  listen();
  pass_to_deadline(a);
  settle();
  EXPECT_TRUE(a.told().empty());
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_response);
  EXPECT_TRUE(a.cm.establish(*id).ok());
}

TEST_F(ListenerRetryTest, ALateRefusalIsFinal) {
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle_without_listener();
  EXPECT_EQ(a.told_one().kind, EventKind::rejected);
  EXPECT_TRUE(a.sent().empty());
}

TEST_F(ListenerRetryTest, ALostRetryIsFollowedByTheEarlyOne) {
  const auto id = a.cm.connect(request(), now);
  ASSERT_TRUE(id.ok());
  const Instant begin = now;
  settle();
  pass_to_deadline(a);
  static_cast<void>(a.sent_one());
  pass_to_deadline(a);
  EXPECT_EQ(now - begin, RetrySchedule::kEarly[0]);
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::rejected);
}

TEST_F(ListenerRetryTest, OtherReasonsAreFinal) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle();
  ASSERT_TRUE(b.cm.reject(b.told_one().id, {.private_data = {1}}).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::rejected);
  EXPECT_EQ(a.cm.connections(), 0u);
}

TEST_F(ListenerRetryTest, ASidrReqIsRetriedToo) {
  ASSERT_TRUE(a.cm.sidr_request(resolution(), now).ok());
  const Instant begin = now;
  EXPECT_EQ(count_retries(), ListenerRetry::kGiveUpAfter / ListenerRetry::kInterval);
  EXPECT_EQ(now - begin, ListenerRetry::kGiveUpAfter);
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::unreachable);
  EXPECT_EQ(told.status, static_cast<int>(packet::SidrStatus::unsupported_service));
}

}  // namespace
}  // namespace verbena::cm
