// What debug builds watch. This program is built with RDMAPP_CHECKS=1.
#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Checks : public Quiet {};

TEST_F(Checks, AReceivePostedTwiceIsReported) {
  Pair p;
  p.b.post(Recv{p.far.slice(0, 100)}.id(1)).check();
  p.b.post(Recv{p.far.slice(100, 100)}.id(2)).check();
  EXPECT_THAT(reports.take(), IsEmpty());
  p.b.post(Recv{p.far.slice(99, 10)}.id(3)).check();
  const auto lines = reports.take();
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.front(), HasSubstr("request 3 lets the device write"));
  EXPECT_THAT(lines.front(), HasSubstr("while request 1 in flight writes"));
}

TEST_F(Checks, SendingWhatIsBeingReceivedIsReported) {
  Pair p;
  p.b.post(Recv{p.far.slice(0, 100)}.id(1)).check();
  p.b.post(Send{p.far.slice(50, 10)}.id(2)).check();
  EXPECT_THAT(reports.take(), ElementsAre(HasSubstr("request 2 sends")));
  p.a.post(Recv{p.near.slice(0, 100)}).check();  // lets the send go
  p.b.to_error();
}

TEST_F(Checks, WhatCompletedIsForgotten) {
  Pair p;
  for (int round = 0; round < 3; ++round) {
    p.b.post(Recv{p.far.slice(0, 100)}.id(1)).check();
    p.a.post(Send{p.near.slice(50, 10)}).check();
    ASSERT_TRUE(p.next_of(1).ok());
    p.a.post(Read{p.near.slice(0, 10), p.far.remote()}.signaled().id(2)).check();
    ASSERT_TRUE(p.next_of(2).ok());
  }
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, ReadersMayShareMemory) {
  Pair p;
  for (std::uint64_t i = 0; i < 4; ++i) p.a.post(Write{p.near, p.far.remote()}.id(i)).check();
  p.a.post(Write{p.near, p.far.remote()}.signaled().id(9)).check();
  ASSERT_TRUE(p.next_of(9).ok());
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, AFenceOrdersAReadBeforeTheSendOfItsResult) {
  Pair p;
  p.b.post(Recv{p.far.slice(2000, 100)}.id(1)).check();
  p.a.post(Read{p.near.slice(0, 10), p.far.remote()}, Send{p.near.slice(0, 10)}.fence()).check();
  ASSERT_TRUE(p.next_of(1).ok());
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, InlineDataIsFreeAtOnce) {
  Pair p;
  p.a.post(Write{p.near.slice(0, 8), p.far.remote()}.inline_data()).check();
  p.a.post(Recv{p.near.slice(0, 8)}).check();
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, MemoryThatGoesAwayInFlightIsReported) {
  Pair p;
  {
    const Buffer gone{p.pd, 100};
    p.b.post(Recv{gone}.id(7)).check();
  }
  const auto lines = reports.take();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines.front(), HasSubstr("is released while request 7"));
}

TEST_F(Checks, ADestroyedQueuePairHoldsNothing) {
  Pair p;
  {
    const Buffer memory{p.pd, 100};
    const QueuePair qp = QueuePair::rc(p.pd).cq(p.cq).create();
    const_cast<QueuePair&>(qp).to_init();
    qp.post(Recv{memory}.id(1)).check();
  }
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, AResetQueuePairHoldsNothing) {
  Pair p;
  Buffer memory{p.pd, 100};
  p.b.post(Recv{memory}.id(1)).check();
  p.b.to_reset();
  memory = Buffer{p.pd, 100};
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, RequestsWithoutAnIdAreNotMistakenForEachOther) {
  Pair p;
  Buffer received{p.pd, 100};
  p.a.post(Recv{received}).check();                                         // id 0, like …
  p.a.post(Send{p.near.slice(0, 10)}, Send{p.near.slice(10, 10)}).check();  // … these
  p.a.to_error();
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(p.next().ok());
  received = Buffer{p.pd, 100};
  EXPECT_THAT(reports.take(), IsEmpty());
}

TEST_F(Checks, AFailureEndsTheUnsignaledRequestsBeforeIt) {
  Pair p;
  Buffer sent{p.pd, 100};
  p.a.post(Write{sent.slice(0, 10), p.far.remote()}, Write{sent.slice(10, 10), p.far.remote()})
      .check();
  p.a.post(Write{p.near, RemoteBuffer{0, 4096, 0}}.id(3)).check();  // refused by the peer
  EXPECT_EQ(p.next_of(3).status, IBV_WC_REM_ACCESS_ERR);
  sent = Buffer{p.pd, 100};
  EXPECT_THAT(reports.take(), IsEmpty());
}

/// Whoever is told may use the library.
Buffer* released_by_reporter = nullptr;

TEST_F(Checks, AReportMayReleaseMemory) {
  Pair p;
  Buffer other{p.pd, 100};
  released_by_reporter = &other;
  const Reporter before = set_reporter([](std::string_view) noexcept {
    Buffer gone = std::move(*released_by_reporter);  // asks the checks, too
  });
  p.b.post(Recv{p.far.slice(0, 100)}).check();
  p.b.post(Recv{p.far.slice(0, 100)}).check();
  set_reporter(before);
}

TEST_F(Checks, WhatTheVerbRefusedIsNotInFlight) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  CompletionQueue cq{context, 16};
  const Buffer memory{pd, 100};
  const QueuePair reset = QueuePair::rc(pd).cq(cq).create();
  EXPECT_FALSE(reset.post(Recv{memory}));
  EXPECT_FALSE(reset.post(Recv{memory}));
  EXPECT_FALSE(reset.post(Send{memory}));
  EXPECT_THAT(reports.take(), IsEmpty());
}

}  // namespace
}  // namespace rdma::test
