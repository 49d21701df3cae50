// Queue pairs by hand: every request, every service, every state change.
#include "tests/rdmapp/loopback.h"

namespace rdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class QueuePairs : public Quiet {};

TEST_F(QueuePairs, WriteReachesMemoryAndReadComesBack) {
  Pair p;
  p.near.set_text("one-sided");
  p.a.post(Write{p.near, p.far.remote()}.id(1).signaled()).check();
  EXPECT_TRUE(p.next_of(1).ok());
  EXPECT_EQ(p.far.text(), "one-sided");

  p.near.set_text("");
  p.a.post(Read{p.near, p.far.remote()}.id(2).signaled()).check();
  const Completion done = p.next_of(2);
  EXPECT_EQ(done.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(p.near.text(), "one-sided");
}

TEST_F(QueuePairs, SendMeetsReceivesInOrder) {
  Pair p;
  p.b.post(Recv{p.far.slice(0, 100)}.id(10)).check();
  p.b.post(Recv{p.far.slice(100, 100)}.id(11)).check();
  p.near.set_text("first");
  p.a.post(Send{p.near.slice(0, 6)}.imm(0xcafe)).check();
  const Completion first = p.next_of(10);
  EXPECT_TRUE(first.is_receive());
  EXPECT_EQ(first.length(), 6u);
  EXPECT_TRUE(first.has_imm());
  EXPECT_EQ(first.imm(), 0xcafeu);
  p.a.post(Send{p.near.slice(0, 3)}.signaled().id(3)).check();
  std::vector<std::uint64_t> ids{p.next().id(), p.next().id()};
  EXPECT_THAT(ids, testing::UnorderedElementsAre(11, 3));
}

TEST_F(QueuePairs, GatherAndScatter) {
  Pair p;
  p.near.set_text("aabbbbcc");
  const Slice from[] = {p.near.slice(0, 2), p.near.slice(6, 2)};
  const Slice to[] = {p.far.slice(0, 1), p.far.slice(10, 3)};
  p.b.post(Recv{to}.id(1)).check();
  p.a.post(Send{from}).check();
  EXPECT_EQ(p.next_of(1).length(), 4u);
  EXPECT_EQ(p.far.text(), "a");
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(p.far.data()) + 10), "acc");

  const std::vector<Slice> list(4, p.near.slice(0, 1));
  p.a.post(Write{std::span{list}, p.far.remote()}.signaled().id(2)).check();
  EXPECT_TRUE(p.next_of(2).ok());
  EXPECT_EQ(p.far.text().substr(0, 4), "aaaa");
}

TEST_F(QueuePairs, InlineDataNeedsNoRegistration) {
  Pair p;
  char text[] = "on the stack";
  p.a.post(Write{p.far.remote()}.inline_data(std::as_bytes(std::span{text})).signaled().id(1))
      .check();
  std::memset(text, 'x', sizeof text);  // it was copied
  EXPECT_TRUE(p.next_of(1).ok());
  EXPECT_EQ(p.far.text(), "on the stack");
}

TEST_F(QueuePairs, WriteWithImmediateNotifies) {
  Pair p;
  p.b.post(Recv{}.id(5)).check();
  p.near.set_text("noted");
  p.a.post(Write{p.near, p.far.remote()}.imm(77).solicited()).check();
  const Completion done = p.next_of(5);
  EXPECT_EQ(done.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(done.imm(), 77u);
  EXPECT_EQ(p.far.text(), "noted");
}

TEST_F(QueuePairs, AtomicsReturnWhatWasThere) {
  Pair p;
  auto target = p.far.as<std::uint64_t>();
  auto before = p.near.as<std::uint64_t>();
  target[0] = 100;
  p.a.post(FetchAdd{p.near.slice(0, 8), p.far.remote(), 5}.signaled().id(1)).check();
  EXPECT_TRUE(p.next_of(1).ok());
  EXPECT_EQ(before[0], 100u);
  p.a.post(CompareSwap{p.near.slice(0, 8), p.far.remote(), 105, 7}.signaled().id(2)).check();
  EXPECT_TRUE(p.next_of(2).ok());
  EXPECT_EQ(before[0], 105u);
  EXPECT_EQ(target[0], 7u);
}

TEST_F(QueuePairs, AChainIsOnePost) {
  Pair p;
  p.near.set_text("chained");
  std::vector<Write> chain;
  for (std::uint64_t i = 0; i < 10; ++i) {
    chain.push_back(Write{p.near.slice(i, 1), p.far.remote().slice(i, 1)}.id(i));
  }
  chain.back().signaled();
  p.a.post(std::span{chain}).check();
  EXPECT_TRUE(p.next_of(9).ok()) << "one completion for all";
  EXPECT_EQ(p.far.text(), "chained");

  p.b.post(Recv{}.id(20)).check();
  p.near.set_text("CHAINED");
  p.a.post(Write{p.near, p.far.remote()}, Send{}.imm(1),
           Read{p.near, p.far.remote()}.fence().id(3).signaled())
      .check();
  std::vector<std::uint64_t> ids{p.next().id(), p.next().id()};
  EXPECT_THAT(ids, testing::UnorderedElementsAre(20, 3));
  EXPECT_EQ(p.far.text(), "CHAINED");
  // One that was in a chain can be posted alone.
  p.a.post(chain.back().id(30)).check();
  EXPECT_TRUE(p.next_of(30).ok());
}

TEST_F(QueuePairs, RequestsAreValues) {
  Pair p;
  p.near.set_text("copied");
  std::optional<SendRequest> kept;
  {
    const Write original = Write{p.near.slice(0, 7), p.far.remote()}.signaled().id(4);
    kept = original;
  }
  p.a.post(*kept).check();
  EXPECT_TRUE(p.next_of(4).ok());
  EXPECT_EQ(p.far.text(), "copied");
}

TEST_F(QueuePairs, SendWithInvalidateTakesAKeyAway) {
  Pair p;
  const MemoryWindow window{p.pd, MemoryWindow::Type::two};
  const std::uint32_t key = window.next_rkey();
  p.b.post(BindWindow{window, key, p.far.region(), 16, 32, Access::remote_write}.signaled().id(1))
      .check();
  ASSERT_TRUE(p.next_of(1).ok());
  const RemoteBuffer through = MemoryWindow::remote(key, p.far.region(), 16, 32);
  p.near.set_text("through a window");
  p.a.post(Write{p.near.slice(0, 17), through}.signaled().id(2)).check();
  ASSERT_TRUE(p.next_of(2).ok());
  EXPECT_EQ(std::string_view(reinterpret_cast<char*>(p.far.data()) + 16), "through a window");

  p.b.post(Recv{}.id(3)).check();
  p.a.post(Send{}.invalidate(key)).check();
  const Completion received = p.next_of(3);
  EXPECT_TRUE(received.has_invalidated());
  EXPECT_EQ(received.invalidated(), key);
  p.a.post(Write{p.near.slice(0, 17), through}.signaled().id(4)).check();
  EXPECT_EQ(p.next_of(4).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(QueuePairs, WindowsOfTypeOneGetTheirKeyFromTheDevice) {
  Pair p;
  const MemoryWindow window{p.pd, MemoryWindow::Type::one};
  window.bind(p.b, p.far.region(), 0, 64, Access::remote_write, 1).check();
  ASSERT_TRUE(p.next_of(1).ok());
  p.near.set_text("type one");
  const RemoteBuffer through = MemoryWindow::remote(window.rkey(), p.far.region(), 0, 64);
  p.a.post(Write{p.near.slice(0, 9), through}.signaled().id(2)).check();
  EXPECT_TRUE(p.next_of(2).ok());
  EXPECT_EQ(p.far.text(), "type one");
  EXPECT_THROW(window.bind(p.b, p.far.region(), 4000, 97, Access::remote_write).check(),
               std::out_of_range);
}

TEST_F(QueuePairs, LocalInvalidateOfAWindow) {
  Pair p;
  const MemoryWindow window{p.pd, MemoryWindow::Type::two};
  const std::uint32_t key = window.next_rkey();
  p.b.post(BindWindow{window, key, p.far.region(), 0, 64, Access::remote_write},
           LocalInvalidate{key}.signaled().id(1))
      .check();
  EXPECT_TRUE(p.next_of(1).ok());
}

TEST_F(QueuePairs, UnreliableConnection) {
  Pair p{&QueuePair::uc};
  p.b.post(Recv{p.far.slice(0, 64)}.id(1)).check();
  p.near.set_text("uc");
  p.a.post(Send{p.near.slice(0, 3)}).check();
  EXPECT_TRUE(p.next_of(1).ok());
  EXPECT_EQ(p.far.text(), "uc");
}

TEST_F(QueuePairs, DatagramsFindTheirWayBack) {
  constexpr std::uint32_t kKey = 0x11223344;
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  CompletionQueue cq{context, 64};
  Buffer near{pd, 4096}, far{pd, 4096};
  QueuePair a = QueuePair::ud(pd).cq(cq).create(), b = QueuePair::ud(pd).cq(cq).create();
  a.activate(kKey);
  b.activate(kKey);
  const AddressHandle to_b{pd, a.path_to(b.info())};
  b.post(Recv{far.slice(0, 200)}.id(1)).check();
  a.post(Recv{near.slice(1000, 200)}.id(2)).check();
  near.set_text("who is there?");
  a.post(Send{near.slice(0, 14)}.to(to_b, b.number(), kKey)).check();
  const auto arrived = cq.wait(5s);
  ASSERT_TRUE(arrived && arrived->ok());
  EXPECT_EQ(arrived->length(), AddressHandle::kGrhSize + 14);
  EXPECT_EQ(arrived->src_qp, a.number());
  ASSERT_TRUE(arrived->has_grh());
  const AddressHandle back = AddressHandle::reply_to(pd, *arrived, far.data());
  b.post(Send{far.slice(AddressHandle::kGrhSize, 14)}.to(back, arrived->src_qp, kKey)).check();
  const auto answered = cq.wait(5s);
  ASSERT_TRUE(answered && answered->ok());
  EXPECT_EQ(answered->id(), 2u);
  EXPECT_STREQ(reinterpret_cast<char*>(near.data()) + 1000 + AddressHandle::kGrhSize,
               "who is there?");
}

TEST_F(QueuePairs, MulticastReachesEveryMember) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  CompletionQueue cq{context, 64};
  Buffer memory{pd, 4096};
  QueuePair a = QueuePair::ud(pd).cq(cq).create(), b = QueuePair::ud(pd).cq(cq).create();
  a.activate(Multicast::kQkey);
  b.activate(Multicast::kQkey);
  const Multicast group{pd, b, "239.7.7.7"};
  b.post(Recv{memory.slice(1000, 200)}.id(1)).check();
  memory.set_text("to all");
  a.post(Send{memory.slice(0, 7)}.to(group.address(), group.qpn(), group.qkey())).check();
  const auto arrived = cq.wait(5s);
  ASSERT_TRUE(arrived && arrived->ok());
  EXPECT_STREQ(reinterpret_cast<char*>(memory.data()) + 1000 + AddressHandle::kGrhSize, "to all");
}

TEST_F(QueuePairs, ExtendedReliableConnection) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  const XrcDomain domain{context};
  CompletionQueue sends{context, 16}, receives{context, 16};
  Buffer memory{pd, 4096};
  const SharedReceiveQueue srq{pd, domain, receives, 16};
  QueuePair sender = QueuePair::xrc_send(pd).cq(sends).create();
  QueuePair receiver = QueuePair::xrc_receive(domain).create();
  const ConnInfo one = sender.info(), other = receiver.info();
  sender.connect(other);
  receiver.connect(one);
  srq.post(Recv{memory.slice(1000, 100)}.id(1)).check();
  memory.set_text("xrc");
  sender.post(Send{memory.slice(0, 4)}.xrc_srq(srq.number()).signaled()).check();
  const auto arrived = receives.wait(5s);
  ASSERT_TRUE(arrived && arrived->ok());
  EXPECT_STREQ(reinterpret_cast<char*>(memory.data()) + 1000, "xrc");
  EXPECT_TRUE(sends.wait(5s));
}

TEST_F(QueuePairs, ASharedReceiveQueueTellsWhenItRunsLow) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  CompletionQueue cq{context, 64};
  Buffer memory{pd, 4096};
  SharedReceiveQueue srq{pd, 16};
  QueuePair a = QueuePair::rc(pd).cq(cq).create();
  QueuePair b = QueuePair::rc(pd).cq(cq).srq(srq).create();
  const ConnInfo one = a.info(), other = b.info();
  a.connect(other);
  b.connect(one);
  std::vector<Recv> receives;
  for (std::uint64_t i = 0; i < 4; ++i) {
    receives.push_back(Recv{memory.slice(1000 + 100 * i, 100)}.id(i));
  }
  srq.post(std::span{receives}).check();
  srq.set_limit(3);
  EXPECT_EQ(srq.query().srq_limit, 3u);
  for (std::uint64_t i = 0; i < 2; ++i) {
    a.post(Send{memory.slice(0, 10)}).check();
    const auto done = cq.wait(5s);
    ASSERT_TRUE(done && done->ok());
    EXPECT_EQ(done->id(), i);
  }
  const auto event = context.next_event(5s);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(event->object, srq.raw());
  EXPECT_THAT(event->to_string(), HasSubstr("SRQ"));
}

TEST_F(QueuePairs, StatesByHand) {
  const Context context{Device::by_name(kDevice)};
  const ProtectionDomain pd{context};
  CompletionQueue cq{context, 64};
  QueuePair a = QueuePair::rc(pd).cq(cq).create(), b = QueuePair::rc(pd).cq(cq).create();
  const ConnInfo ours = a.info(), theirs = b.info();
  std::vector<ibv_qp_state> states{a.query().qp_state};
  a.to_init({.access = Access::remote_write});
  states.push_back(a.query().qp_state);
  a.to_rtr({.path = a.path_to(theirs), .qpn = theirs.qpn, .psn = theirs.psn});
  states.push_back(a.query().qp_state);
  a.to_rts({.psn = ours.psn});
  states.push_back(a.query().qp_state);
  a.to_error();
  states.push_back(a.query().qp_state);
  a.to_reset();
  states.push_back(a.query().qp_state);
  EXPECT_THAT(states, ElementsAre(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                  IBV_QPS_ERR, IBV_QPS_RESET));
}

TEST_F(QueuePairs, TheErrorStateFlushesAndResetLetsItConnectAgain) {
  Pair p;
  p.b.post(Recv{p.far.slice(0, 64)}.id(1)).check();
  p.b.to_error();
  const Completion flushed = p.next_of(1);
  EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_THAT(flushed.message(), HasSubstr("look for the first failure"));
  p.a.to_reset();
  p.b.to_reset();
  p.a.connect(p.b.info());
  p.b.connect(p.a.info());
  p.near.set_text("again");
  p.a.post(Write{p.near, p.far.remote()}.signaled().id(2)).check();
  EXPECT_TRUE(p.next_of(2).ok());
  EXPECT_EQ(p.far.text(), "again");
}

TEST_F(QueuePairs, AMisusedKeyEndsInAnExplainedCompletion) {
  Pair p;
  RemoteBuffer wrong = p.far.remote();
  wrong.rkey ^= 0x100;
  p.a.post(Write{p.near, wrong}.id(6)).check();  // failures complete without being asked to
  const Completion done = p.next_of(6);
  EXPECT_EQ(done.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_THAT(done.message(), HasSubstr("a wrong or stale rkey"));
  EXPECT_THAT(message_of<CompletionError>([&] { done.check(); }), HasSubstr("REM_ACCESS_ERR"));
}

TEST_F(QueuePairs, AFullQueueSaysSo) {
  Pair p;
  const QueuePair& qp = p.b;
  PostStatus status;
  int posted = 0;
  while (posted < 100'000 && (status = qp.post(Recv{}))) ++posted;
  EXPECT_EQ(status.code(), ENOMEM);
  EXPECT_GE(posted, 64);
  EXPECT_THAT(status.message(), HasSubstr("the queue is full"));
}

}  // namespace
}  // namespace rdma::test
