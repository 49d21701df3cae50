// From REQ to established, and what both ends learn on the way.

#include <cerrno>

#include "packet/ip_cm_header.h"
#include "tests/unit/cm/two_hosts.h"

namespace verbena::cm {
namespace {

class Connect : public TwoHosts {};

TEST_F(Connect, TellsBothEndsAllTheNumbers) {
  const ListenerId listener = listen();
  const auto active = a.cm.connect(request(), now);
  ASSERT_TRUE(active.ok());
  settle();

  const Event asked = b.told_one();
  EXPECT_EQ(asked.kind, EventKind::connect_request);
  EXPECT_EQ(asked.listener, listener);
  EXPECT_EQ(asked.offer.local, (Endpoint{b.address, kPort}));
  EXPECT_EQ(asked.offer.remote, (Endpoint{a.address, 40'000}));
  EXPECT_EQ(asked.offer.service, service());
  EXPECT_EQ(asked.offer.qpn, Qpn{0x111});
  EXPECT_EQ(asked.offer.starting_psn, Psn{0xaaaaaa});
  EXPECT_EQ(asked.offer.responder_resources, 5);  // the peer's initiator depth
  EXPECT_EQ(asked.offer.initiator_depth, 3);
  EXPECT_EQ(asked.offer.retry_count, 4);
  EXPECT_EQ(asked.offer.rnr_retry_count, 6);
  EXPECT_EQ(asked.offer.mtu, packet::PathMtu::mtu_2048);
  PrivateData expected(kIpReqPrivateSize);
  expected[0] = 1, expected[1] = 2, expected[2] = 3;
  EXPECT_EQ(asked.private_data, expected);

  ASSERT_TRUE(b.cm.accept(asked.id, reply(), now).ok());
  settle();
  const Event answered = a.told_one();
  EXPECT_EQ(answered.kind, EventKind::connect_response);
  EXPECT_EQ(answered.id, *active);
  EXPECT_EQ(answered.offer.qpn, Qpn{0x222});
  EXPECT_EQ(answered.offer.responder_resources, 1);
  EXPECT_EQ(answered.offer.initiator_depth, 2);
  EXPECT_EQ(answered.private_data.size(), 196u);
  EXPECT_EQ(answered.private_data[1], 5);

  ASSERT_TRUE(a.cm.establish(*active, {7}).ok());
  settle();
  const Event ready = b.told_one();
  EXPECT_EQ(ready.kind, EventKind::established);
  EXPECT_EQ(ready.id, asked.id);
  EXPECT_EQ(ready.private_data.at(0), 7);
  EXPECT_TRUE(a.told().empty());
  EXPECT_EQ(a.cm.state(*active), State::established);
  EXPECT_EQ(b.cm.state(asked.id), State::established);
  EXPECT_EQ(a.cm.next_deadline(), kNever);
  EXPECT_EQ(b.cm.next_deadline(), kNever);
}

TEST_F(Connect, GivesTheQueuePairsWhatTheyNeed) {
  const auto ids = established();
  const auto qa = a.cm.qp_parameters(ids.a);
  ASSERT_TRUE(qa.has_value());
  EXPECT_EQ(qa->remote_qpn, Qpn{0x222});
  EXPECT_EQ(qa->remote, b.address);
  EXPECT_EQ(qa->rq_psn, Psn{0xaaaaaa});  // what we said is what we expect (IBA 12.7.31)
  EXPECT_EQ(qa->sq_psn, Psn{0xbbbbbb});
  EXPECT_EQ(qa->mtu, packet::PathMtu::mtu_2048);
  EXPECT_EQ(qa->max_dest_rd_atomic, 1);  // B's initiator depth
  EXPECT_EQ(qa->max_rd_atomic, 2);       // B's responder resources
  EXPECT_EQ(qa->retry_count, 4);
  EXPECT_EQ(qa->rnr_retry_count, 5);
  EXPECT_EQ(qa->timeout.value(), 19);
  EXPECT_EQ(qa->hop_limit, 64);
  const auto qb = b.cm.qp_parameters(ids.b);
  ASSERT_TRUE(qb.has_value());
  EXPECT_EQ(qb->remote_qpn, Qpn{0x111});
  EXPECT_EQ(qb->rq_psn, Psn{0xbbbbbb});
  EXPECT_EQ(qb->sq_psn, Psn{0xaaaaaa});
  EXPECT_EQ(qb->max_dest_rd_atomic, 2);
  EXPECT_EQ(qb->max_rd_atomic, 1);
  EXPECT_EQ(qb->retry_count, 4);
  EXPECT_EQ(qb->rnr_retry_count, 6);
  EXPECT_EQ(a.cm.qp_parameters(ConnectionId{99}), std::nullopt);
}

TEST_F(Connect, IdsCarryTheSlot) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto req = a.sent_one();
  EXPECT_EQ(message_of<packet::CmReq>(req).local_id.slot(), 5u);
  deliver(req);
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  EXPECT_EQ(message_of<packet::CmRep>(b.sent_one()).local_id.slot(), 9u);
}

TEST_F(Connect, AnswersHaveTheTransactionOfTheRequest) {
  listen();
  const auto id = a.cm.connect(request(), now);
  const auto req = a.sent_one();
  deliver(req);
  ASSERT_TRUE(b.cm.accept(b.told_one().id, reply(), now).ok());
  const auto rep = b.sent_one();
  EXPECT_EQ(decoded(rep).transaction, decoded(req).transaction);
  deliver(rep);
  ASSERT_TRUE(a.cm.establish(*id).ok());
  EXPECT_EQ(decoded(a.sent_one()).transaction, decoded(req).transaction);
}

TEST_F(Connect, RefusesMoreThanAMessageHolds) {
  auto p = request();
  p.private_data.assign(57, 1);
  const auto too_much = a.cm.connect(p, now);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, EINVAL);
  EXPECT_EQ(too_much.error().message,
            "connect: 57 bytes of private data, the message holds at most 56");
  p.service = ServiceId{0x1000'0000'0000'0001};  // none of rdma_cm's: no addressing header
  p.private_data.assign(92, 1);
  EXPECT_TRUE(a.cm.connect(p, now).ok());
  p.private_data.assign(93, 1);
  EXPECT_FALSE(a.cm.connect(p, now).ok());
  settle_without_listener();
  EXPECT_EQ(a.told_one().kind, EventKind::rejected);

  const auto ids = established();
  EXPECT_FALSE(a.cm.disconnect(ids.a, PrivateData(221), now).ok());
  EXPECT_TRUE(a.cm.disconnect(ids.a, PrivateData(220), now).ok());
}

TEST_F(Connect, RefusesWhatCanNotBe) {
  auto p = request();
  p.destination = *IpAddress::parse("fe80::1");
  EXPECT_FALSE(a.cm.connect(p, now).ok());
  p = request();
  p.mtu = packet::PathMtu{6};
  EXPECT_FALSE(a.cm.connect(p, now).ok());
  EXPECT_EQ(a.cm.connections(), 0u);
  EXPECT_TRUE(a.cm.outbox().empty());
}

TEST_F(Connect, CallsOutOfTurnAreErrors) {
  listen();
  const auto id = a.cm.connect(request(), now);
  EXPECT_EQ(a.cm.establish(*id).error().message,
            "establish: connection 1 is in state req_sent, not in rep_rcvd");
  EXPECT_FALSE(a.cm.accept(*id, reply(), now).ok());
  EXPECT_FALSE(a.cm.reject(*id, {}).ok());
  EXPECT_FALSE(a.cm.disconnect(*id, {}, now).ok());
  EXPECT_FALSE(a.cm.notify_established(*id).ok());
  EXPECT_EQ(a.cm.accept(ConnectionId{77}, reply(), now).error().message,
            "accept: connection 77 doesn't exist: it ended or was never made");
  a.cm.destroy(ConnectionId{77}, now);  // fine
}

TEST_F(Connect, NobodyListensThere) {
  const auto id = a.cm.connect(request(), now);
  settle_without_listener();
  const Event told = a.told_one();
  EXPECT_EQ(told.kind, EventKind::rejected);
  EXPECT_EQ(told.id, *id);
  EXPECT_EQ(told.status, 8);
  EXPECT_EQ(a.cm.connections(), 0u);
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(Connect, TheNearestListenerAnswers) {
  const auto wildcard = b.cm.listen({.service = service()});
  const auto exact = b.cm.listen({.service = service(), .address = b.address});
  ASSERT_TRUE(wildcard.ok() && exact.ok());
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle();
  EXPECT_EQ(b.told_one().listener, *exact);
  b.cm.close(*exact);
  auto p = request();
  p.offer.qpn = Qpn{0x112};
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  settle();
  EXPECT_EQ(b.told_one().listener, *wildcard);
}

TEST_F(Connect, ADatagramListenerTakesNoConnections) {
  ASSERT_TRUE(b.cm.listen({.service = service(), .datagram = true}).ok());
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  settle_without_listener();
  EXPECT_EQ(a.told_one().status, 8);
}

TEST_F(Connect, DataThatArrivesIsAsGoodAsAnRtu) {
  listen();
  const auto id = a.cm.connect(request(), now);
  settle();
  const auto passive = b.told_one().id;
  ASSERT_TRUE(b.cm.accept(passive, reply(), now).ok());
  settle();
  ASSERT_TRUE(a.cm.establish(*id).ok());
  const auto late = a.sent_one();
  ASSERT_TRUE(b.cm.notify_established(passive).ok());
  EXPECT_EQ(b.told_one().kind, EventKind::established);
  deliver(late);
  EXPECT_TRUE(b.told().empty());
  EXPECT_TRUE(b.cm.notify_established(passive).ok());  // the queue pair may say it late
}

TEST_F(Connect, TwoCrossingRequestsAreTwoConnections) {
  ASSERT_TRUE(a.cm.listen({.service = service()}).ok());
  listen();
  auto back = request();
  std::swap(back.source, back.destination);
  back.ca_guid = kGuidB;
  back.offer.qpn = Qpn{0x333};
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  ASSERT_TRUE(b.cm.connect(back, now).ok());
  settle();
  EXPECT_EQ(a.told_one().kind, EventKind::connect_request);
  EXPECT_EQ(b.told_one().kind, EventKind::connect_request);
  EXPECT_EQ(a.cm.connections(), 2u);
  EXPECT_EQ(b.cm.connections(), 2u);
}

TEST_F(Connect, AFullBacklogDropsAndTheNextTryIsTaken) {
  const auto listener = listen(1);
  auto p = request();
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  p.offer.qpn = Qpn{0x112};
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  settle();
  const Event first = b.told_one();
  EXPECT_EQ(b.cm.counters().drop_backlog, 1u);
  b.cm.taken(first.id);
  pass_to_deadline(a);
  settle();
  const Event second = b.told_one();
  EXPECT_EQ(second.offer.qpn, Qpn{0x112});
  EXPECT_EQ(second.listener, listener);
}

TEST_F(Connect, AFullTableRejects) {
  Config small;
  small.max_connections = 1;
  TestHost c{3, IpAddress::v4({10, 0, 0, 2}), small};
  ASSERT_TRUE(c.cm.listen({.service = service()}).ok());
  auto p = request();
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  p.offer.qpn = Qpn{0x112};
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  for (const auto& mad : a.sent()) {
    c.cm.receive({.route = {.local = c.address, .remote = a.address}, .bytes = mad.bytes}, now);
  }
  EXPECT_EQ(c.told().size(), 1u);
  EXPECT_EQ(message_of<packet::CmRej>(c.sent_one()).reason, RejectReason::no_resources);
  EXPECT_EQ(c.cm.connect(request(), now).error().code, ENOMEM);
}

/// What no listener could take.
TEST_F(Connect, ImpossibleRequestsAreRejectedWithTheReason) {
  listen();
  ASSERT_TRUE(a.cm.connect(request(), now).ok());
  const auto good = message_of<packet::CmReq>(a.sent_one());
  std::uint64_t transaction = 1000;
  const auto reason_for = [&](auto change) {
    packet::CmReq req = good;
    req.local_id = CommId{static_cast<std::uint32_t>(++transaction)};
    change(req);
    deliver(a, transaction, req);
    const auto rej = message_of<packet::CmRej>(b.sent_one());
    EXPECT_EQ(rej.remote_id, req.local_id);
    EXPECT_EQ(rej.local_id, CommId{});
    return rej;
  };
  EXPECT_EQ(reason_for([](auto& r) { r.transport = packet::CmTransport::rd; }).reason,
            RejectReason::invalid_transport);
  EXPECT_EQ(reason_for([](auto& r) { r.transport = packet::CmTransport::extended; }).reason,
            RejectReason::invalid_transport);
  const auto mtu = reason_for([](auto& r) { r.mtu = packet::PathMtu{6}; });
  EXPECT_EQ(mtu.reason, RejectReason::invalid_mtu);
  EXPECT_EQ(mtu.info_length, 1);
  EXPECT_EQ(mtu.info[0], 5);
  const auto gid = reason_for([&](auto& r) { r.primary.remote = a.address; });
  EXPECT_EQ(gid.reason, RejectReason::invalid_gid);
  EXPECT_EQ(gid.info_length, 16);
  EXPECT_EQ(reason_for([&](auto& r) { r.primary.local = b.address; }).reason,
            RejectReason::invalid_gid);
  EXPECT_EQ(reason_for([](auto& r) { r.private_data[0] = 0x10; }).reason,
            RejectReason::invalid_service_id);
  EXPECT_TRUE(b.told().empty());
  EXPECT_EQ(b.cm.connections(), 0u);
}

TEST_F(Connect, XrcAndUcAreTransportsToo) {
  listen();
  auto p = request();
  p.transport = Transport::xrc;
  const auto id = a.cm.connect(p, now);
  settle();
  const Event asked = b.told_one();
  EXPECT_EQ(asked.offer.transport, Transport::xrc);
  ASSERT_TRUE(b.cm.accept(asked.id, reply(), now).ok());
  const auto rep = b.sent_one();
  EXPECT_EQ(message_of<packet::CmRep>(rep).eecn, 0x222u);  // annex A14: where the target's QPN is
  deliver(rep);
  EXPECT_EQ(a.told_one().offer.qpn, Qpn{0x222});
  EXPECT_EQ(a.cm.qp_parameters(*id)->remote_qpn, Qpn{0x222});
  p.transport = Transport::uc;
  p.offer.qpn = Qpn{0x999};
  ASSERT_TRUE(a.cm.connect(p, now).ok());
  settle();
  EXPECT_EQ(b.told_one().offer.transport, Transport::uc);
}

}  // namespace
}  // namespace verbena::cm
