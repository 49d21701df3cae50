// The services beside RC, and what they share: UC, UD, XRC, shared receive queues, memory
// windows, draining, asynchronous events.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/sim/world.h"
#include "tests/support/datagram.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Attr;
using engine::Completion;
using engine::CompletionKind;
using engine::CompletionStatus;
using engine::EventKind;
using engine::PostResult;
using engine::QpState;
using engine::QpType;
using engine::SendKind;
using engine::Sge;

constexpr unsigned kAll =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kBindWindow;

class Pair {
 public:
  explicit Pair(const ConnectOptions& options, Link link = {})
      : world{7, link}, c{world, options}, memory_a(1u << 18), memory_b(1u << 18) {
    std::iota(memory_a.begin(), memory_a.end(), std::uint8_t{1});
    region_a = c.a.node->expose(c.a.pd, memory_a, kAll);
    region_b = c.b.node->expose(c.b.pd, memory_b, kAll);
  }

  engine::SendRequest request(SendKind kind, std::uint32_t length, std::uint64_t id = 1) {
    sge_ = {region_a.iova, length, region_a.key};
    return {.wr_id = id,
            .kind = kind,
            .signaled = true,
            .remote_address = region_b.iova,
            .rkey = region_b.key,
            .sges = {&sge_, length == 0 ? 0u : 1u},
            .destination = {.flow = {.source = c.a.node->address(),
                                     .destination = c.b.node->address(),
                                     .source_port = 0xc000},
                            .qpn = c.b.qp->qpn,
                            .qkey = 0x1111},
            .xrc_srq = c.b.srq != nullptr ? c.b.srq->number : 0};
  }
  void receive(std::uint32_t length, std::uint64_t id) {
    const std::array sges{Sge{region_b.iova, length, region_b.key}};
    ASSERT_EQ(c.b.receive({.wr_id = id, .sges = sges}), PostResult::posted);
  }
  std::vector<Completion> wait(End& end, std::size_t n) {
    std::vector<Completion> got;
    EXPECT_TRUE(world.run_until(
        [&] {
          const auto more = end.poll();
          got.insert(got.end(), more.begin(), more.end());
          return got.size() >= n;
        },
        10s))
        << got.size() << " of " << n;
    got.resize(std::max(n, got.size()));
    return got;
  }
  /// Lets everything settle.
  void settle() {
    (void)world.run_until([] { return false; }, 1s);
  }

  World world;
  Connection c;
  std::vector<std::uint8_t> memory_a;
  std::vector<std::uint8_t> memory_b;
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;

 private:
  Sge sge_;
};

// ---- UC

TEST(Uc, SendAndWriteCompleteWithoutAnAnswer) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  p.receive(5000, 9);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 5000)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  const auto got = p.wait(p.c.b, 1);
  EXPECT_EQ(got[0].wr_id, 9u);
  EXPECT_EQ(got[0].byte_count, 5000u);
  EXPECT_TRUE(std::equal(p.memory_a.begin(), p.memory_a.begin() + 5000, p.memory_b.begin()));
}

TEST(Uc, LostPacketLosesItsMessageOnlyAndTheReceiveServesTheNext) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  int frames = 0;
  p.world.filter = [&](auto, auto) { return ++frames != 3; };  // of the first message
  p.receive(5000, 9);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 5000)), PostResult::posted);
  auto second = p.request(SendKind::send_immediate, 4000, 2);
  second.immediate = {0, 0, 0, 5};
  ASSERT_EQ(p.c.a.send(second), PostResult::posted);
  const auto got = p.wait(p.c.b, 1);
  EXPECT_EQ(got[0].wr_id, 9u);
  EXPECT_EQ(got[0].byte_count, 4000u);
  EXPECT_TRUE(got[0].has_immediate);
  p.settle();
  EXPECT_TRUE(p.c.b.cq->empty());
}

TEST(Uc, BadKeyIsDroppedWithoutAWord) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  auto bad = p.request(SendKind::write, 3000);
  bad.rkey = Key{0x4711'0815};
  ASSERT_EQ(p.c.a.send(bad), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  p.settle();
  EXPECT_EQ(p.memory_b, std::vector<std::uint8_t>(p.memory_b.size()));
  EXPECT_EQ(p.c.b.qp->state.load(), QpState::rts);
}

TEST(Uc, ReadIsNotOffered) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  EXPECT_EQ(p.c.a.send(p.request(SendKind::read, 10)), PostResult::unsupported);
}

TEST(Uc, LocalFaultLeavesTheReceiveSideAlive) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  p.c.a.node->unmap(p.memory_a);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 10, 1)), PostResult::posted);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 10, 2)), PostResult::posted);
  const auto got = p.wait(p.c.a, 2);
  EXPECT_EQ(got[0].status, CompletionStatus::local_protection_error);
  EXPECT_EQ(got[1].status, CompletionStatus::flushed);
  EXPECT_EQ(p.c.a.qp->state.load(), QpState::sqe);
  engine::QpAttributes to;
  to.state = QpState::rts;
  EXPECT_TRUE(p.c.a.node->rnic().modify_qp(*p.c.a.qp, to, Attr::kState).ok());
}

// ---- UD

TEST(Ud, DatagramComesWithItsHeader) {
  Pair p{{.type_a = QpType::ud, .type_b = QpType::ud}};
  p.receive(40 + 100, 9);
  auto r = p.request(SendKind::send_immediate, 100);
  r.immediate = {1, 2, 3, 4};
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  const auto got = p.wait(p.c.b, 1);
  EXPECT_EQ(got[0].byte_count, 140u);
  EXPECT_TRUE(got[0].has_grh);
  EXPECT_EQ(got[0].source_qpn, p.c.a.qp->qpn);
  EXPECT_EQ(got[0].immediate, (packet::Immediate{1, 2, 3, 4}));
  EXPECT_TRUE(std::equal(p.memory_a.begin(), p.memory_a.begin() + 100, p.memory_b.begin() + 40));
  EXPECT_EQ(p.memory_b[20], 0x45);  // an IPv4 header behind 20 zeros
}

TEST(Ud, WrongQkeyTooLongAndNoReceiveAreDroppedAndCounted) {
  Pair p{{.type_a = QpType::ud, .type_b = QpType::ud}};
  auto wrong = p.request(SendKind::send, 10);
  wrong.destination.qkey = 0x2222;
  ASSERT_EQ(p.c.a.send(wrong), PostResult::posted);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 10)), PostResult::posted);
  p.settle();
  p.receive(40 + 9, 9);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 10)), PostResult::posted);
  p.settle();
  const auto counters = p.c.b.node->rnic().counters();
  EXPECT_EQ(counters.drop_qkey, 1u);
  EXPECT_EQ(counters.drop_no_receive, 1u);
  EXPECT_EQ(counters.drop_too_long, 1u);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 9)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.b, 1)[0].wr_id, 9u);  // the receive was not used up
}

TEST(Ud, QkeyWithTheTopBitIsTheQueuePairsOwn) {
  Pair p{{.type_a = QpType::ud, .type_b = QpType::ud}};
  p.receive(100, 9);
  auto r = p.request(SendKind::send, 10);
  r.destination.qkey = 0x8000'2222;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.b, 1)[0].wr_id, 9u);
}

TEST(Ud, MessageOverTheMtuIsALocalLengthError) {
  Pair p{{.mtu = 1024, .type_a = QpType::ud, .type_b = QpType::ud}};
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 1025)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::local_length_error);
}

TEST(Ud, MulticastReachesMembersOnly) {
  Pair p{{.type_a = QpType::ud, .type_b = QpType::ud}};
  auto r = p.request(SendKind::send, 10);
  r.destination.qpn = Qpn{0xff'ffff};
  p.receive(100, 9);
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  p.settle();
  EXPECT_TRUE(p.c.b.cq->empty());
  // The world routes by unicast address; membership is by the address that the datagram names.
  auto& rnic = p.c.b.node->rnic();
  ASSERT_TRUE(rnic.attach_multicast(*p.c.b.qp, p.c.b.node->address()).ok());
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.b, 1)[0].wr_id, 9u);
  EXPECT_TRUE(rnic.detach_multicast(*p.c.b.qp, p.c.b.node->address()).ok());
  EXPECT_FALSE(rnic.detach_multicast(*p.c.b.qp, p.c.b.node->address()).ok());
}

// ---- shared receive queues, XRC

TEST(Srq, ServesAQueuePairAndTellsWhenItRunsLow) {
  Pair p{{.srq_b = true}};
  ASSERT_TRUE(p.c.b.node->rnic().set_srq_limit(*p.c.b.srq, 2).ok());
  for (std::uint64_t id = 0; id < 3; ++id) p.receive(100, id);
  for (std::uint64_t id = 0; id < 2; ++id) {
    ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 100, id)), PostResult::posted);
    EXPECT_EQ(p.wait(p.c.b, 1)[0].wr_id, id);
    EXPECT_EQ(p.c.b.node->saw(EventKind::srq_limit_reached), id == 1);
  }
  EXPECT_FALSE(p.c.b.node->rnic().destroy_srq(*p.c.b.srq).ok());
}

TEST(Srq, QueuePairInErrorLeavesTheSharedReceivesAlone) {
  Pair p{{.srq_b = true}};
  p.receive(100, 1);
  engine::QpAttributes to;
  to.state = QpState::error;
  ASSERT_TRUE(p.c.b.node->rnic().modify_qp(*p.c.b.qp, to, Attr::kState).ok());
  p.settle();
  EXPECT_TRUE(p.c.b.cq->empty());
  EXPECT_EQ(p.c.b.srq->size(), 1u);
  EXPECT_TRUE(p.c.b.node->saw(EventKind::last_wqe_reached));
}

TEST(Xrc, RequestsNameTheirReceiveQueue) {
  Pair p{{.type_a = QpType::xrc_send, .type_b = QpType::xrc_receive}};
  p.receive(5000, 9);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 5000, 1)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  EXPECT_EQ(p.wait(p.c.b, 1)[0].wr_id, 9u);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 5000, 2)), PostResult::posted);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::read, 5000, 3)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 2)[1].status, CompletionStatus::success);
}

TEST(Xrc, UnknownReceiveQueueIsRefused) {
  Pair p{{.type_a = QpType::xrc_send, .type_b = QpType::xrc_receive}};
  auto r = p.request(SendKind::send, 10);
  r.xrc_srq ^= 1;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::remote_invalid_request);
}

TEST(Xrc, ReceiveQueueOfAnotherDomainIsRefused) {
  Pair p{{.type_a = QpType::xrc_send, .type_b = QpType::xrc_receive}};
  engine::Rnic& b = p.c.b.node->rnic();
  const engine::XrcdId other = b.open_xrcd().value();
  engine::SharedReceiveQueue* stranger =
      b.create_srq(
           {.pd = p.c.b.pd, .depth = 1, .max_sge = 1, .xrc_cq = p.c.b.cq.get(), .xrcd = other})
          .value();
  EXPECT_EQ(b.close_xrcd(other).error().code, EBUSY);
  auto r = p.request(SendKind::write, 10);
  r.xrc_srq = stranger->number;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::remote_invalid_request);
  EXPECT_TRUE(b.destroy_srq(*stranger).ok());
  EXPECT_TRUE(b.close_xrcd(other).ok());
}

// An XRC request reaches memory in the domain of the receive queue that it names, and no other.
TEST(Xrc, MemoryOfAnotherProtectionDomainIsRefused) {
  Pair p{{.type_a = QpType::xrc_send, .type_b = QpType::xrc_receive}};
  const engine::PdId foreign = p.c.b.node->rnic().alloc_pd().value();
  std::vector<std::uint8_t> memory(4096);
  const auto region = p.c.b.node->expose(foreign, memory, kAll);
  auto r = p.request(SendKind::write, 10);
  r.remote_address = region.iova;
  r.rkey = region.key;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::remote_access_error);
}

// ---- memory windows

struct WindowTest : testing::Test {
  WindowTest() : p{{}} {
    window =
        p.c.b.node->rnic().alloc_window(p.c.b.pd, engine::MemoryRegion::Type::window_2).value();
  }
  /// Binds B's window, by B's own queue pair.
  CompletionStatus bind(Key new_key, std::uint64_t length = 4096) {
    engine::SendRequest r{.wr_id = 77, .kind = SendKind::bind_window, .signaled = true};
    r.binding = {.window = window,
                 .new_key = new_key,
                 .region = p.region_b.key,
                 .address = p.region_b.iova,
                 .length = length,
                 .access = Access::kRemoteWrite};
    EXPECT_EQ(p.c.b.send(r), PostResult::posted);
    const auto status = p.wait(p.c.b, 1)[0].status;
    if (status == CompletionStatus::success) window = new_key;
    return status;
  }
  CompletionStatus write_through(Key key, std::uint32_t length) {
    auto r = p.request(SendKind::write, length);
    r.rkey = key;
    EXPECT_EQ(p.c.a.send(r), PostResult::posted);
    return p.wait(p.c.a, 1)[0].status;
  }
  Pair p;
  Key window;
};

TEST_F(WindowTest, GrantsWhatItIsBoundToAndNoMore) {
  const Key key{window.value() ^ 0x5a};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  EXPECT_EQ(write_through(key, 4096), CompletionStatus::success);
  EXPECT_FALSE(p.c.b.node->rnic().deregister_memory(p.region_b.key).ok());
  EXPECT_EQ(write_through(key, 4097), CompletionStatus::remote_access_error);
}

TEST_F(WindowTest, SendWithInvalidateClosesIt) {
  const Key key{window.value() ^ 1};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  p.receive(100, 9);
  auto r = p.request(SendKind::send_invalidate, 100);
  r.invalidate = key;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  const auto got = p.wait(p.c.b, 1);
  EXPECT_TRUE(got[0].has_invalidated);
  EXPECT_EQ(got[0].invalidated, key);
  EXPECT_EQ(write_through(key, 1), CompletionStatus::remote_access_error);
}

TEST_F(WindowTest, MustBeInvalidatedBeforeItIsBoundAgain) {
  const Key key{window.value() ^ 1};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  EXPECT_EQ(bind(Key{key.value() ^ 2}), CompletionStatus::window_bind_error);
}

TEST_F(WindowTest, LocalInvalidateThenBindWorks) {
  const Key key{window.value() ^ 1};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  engine::SendRequest r{.kind = SendKind::local_invalidate, .signaled = true};
  r.invalidate = key;
  ASSERT_EQ(p.c.b.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.b, 1)[0].kind, CompletionKind::local_invalidate);
  EXPECT_EQ(bind(Key{key.value() ^ 2}), CompletionStatus::success);
}

TEST_F(WindowTest, BeyondTheRegionIsRefused) {
  EXPECT_EQ(bind(Key{window.value() ^ 1}, p.region_b.length + 1),
            CompletionStatus::window_bind_error);
}

TEST_F(WindowTest, KeyOfAnotherWindowIsRefused) {
  EXPECT_EQ(bind(Key{window.value() ^ 0x100}), CompletionStatus::window_bind_error);
}

TEST_F(WindowTest, GoesWithTheQueuePairThatBoundIt) {
  const Key key{window.value() ^ 1};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  p.c.b.node->destroy(*p.c.b.qp);
  // Nothing is bound any more: not for a queue pair that draws the same number, either.
  auto& rnic = p.c.b.node->rnic();
  EXPECT_TRUE(rnic.deregister_memory(p.region_b.key).ok());
  EXPECT_TRUE(rnic.dealloc_window(key).ok());
}

TEST_F(WindowTest, OfAnotherQueuePairStays) {
  const Key key{window.value() ^ 1};
  ASSERT_EQ(bind(key), CompletionStatus::success);
  auto& rnic = p.c.b.node->rnic();
  const engine::QpInit init{
      .pd = p.c.b.pd, .send_cq = p.c.b.qp->send_cq, .receive_cq = p.c.b.qp->receive_cq};
  p.c.b.node->destroy(*rnic.create_qp(init).value());
  EXPECT_EQ(write_through(key, 4096), CompletionStatus::success);
}

TEST(Bind, OfAType1WindowIsMovedAndTakenOff) {
  Pair p{{}};
  auto& rnic = p.c.b.node->rnic();
  const Key window = rnic.alloc_window(p.c.b.pd, engine::MemoryRegion::Type::window_1).value();
  const auto bind = [&](std::uint64_t offset, std::uint64_t length) {
    engine::SendRequest r{.kind = SendKind::bind_window, .signaled = true};
    r.binding = {.window = window,
                 .new_key = window,
                 .region = p.region_b.key,
                 .address = p.region_b.iova + offset,
                 .length = length,
                 .access = Access::kRemoteWrite};
    EXPECT_EQ(p.c.b.send(r), PostResult::posted);
    return p.wait(p.c.b, 1)[0].status;
  };
  const auto write = [&](std::uint64_t offset) {
    auto r = p.request(SendKind::write, 10);
    r.remote_address += offset;
    r.rkey = window;
    EXPECT_EQ(p.c.a.send(r), PostResult::posted);
    return p.wait(p.c.a, 1)[0].status;
  };
  ASSERT_EQ(bind(0, 100), CompletionStatus::success);
  EXPECT_EQ(write(0), CompletionStatus::success);
  ASSERT_EQ(bind(100, 100), CompletionStatus::success);  // without invalidation
  EXPECT_EQ(write(100), CompletionStatus::success);
  ASSERT_EQ(bind(0, 0), CompletionStatus::success);  // of nothing: taken off
  EXPECT_TRUE(rnic.deregister_memory(p.region_b.key).ok());
  EXPECT_EQ(write(100), CompletionStatus::remote_access_error);
}

TEST(Bind, IsNotDoneTwiceWhenARequestBeforeItIsSentAgain) {
  Pair p{{}};
  auto& rnic = p.c.a.node->rnic();
  const Key window = rnic.alloc_window(p.c.a.pd, engine::MemoryRegion::Type::window_2).value();
  int frames = 0;
  p.world.filter = [&](auto, auto) { return ++frames != 1; };
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 100, 1)), PostResult::posted);
  engine::SendRequest bind{.wr_id = 2, .kind = SendKind::bind_window, .signaled = true};
  bind.binding = {.window = window,
                  .new_key = Key{window.value() ^ 1},
                  .region = p.region_a.key,
                  .address = p.region_a.iova,
                  .length = 10,
                  .access = Access::kRemoteWrite};
  ASSERT_EQ(p.c.a.send(bind), PostResult::posted);
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 100, 3)), PostResult::posted);
  const auto got = p.wait(p.c.a, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(got[i].status, CompletionStatus::success);
    EXPECT_EQ(got[i].wr_id, i + 1);
  }
}

// ---- states and events

TEST(Drain, FinishesWhatWasBegunAndTells) {
  Pair p{{}};
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 50'000, 1)), PostResult::posted);
  int frames = 0;
  ASSERT_TRUE(p.world.run_until([&] { return ++frames > 3; }, 1s));
  engine::QpAttributes to;
  to.state = QpState::sqd;
  to.notify_drained = true;
  auto& rnic = p.c.a.node->rnic();
  ASSERT_TRUE(rnic.modify_qp(*p.c.a.qp, to, Attr::kState | Attr::kNotifyDrained).ok());
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 10, 2)), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].wr_id, 1u);
  p.settle();
  EXPECT_TRUE(p.c.a.node->saw(EventKind::sq_drained));
  EXPECT_TRUE(p.c.a.cq->empty());
  to.state = QpState::rts;
  ASSERT_TRUE(rnic.modify_qp(*p.c.a.qp, to, Attr::kState).ok());
  EXPECT_EQ(p.wait(p.c.a, 1)[0].wr_id, 2u);
}

/// Takes so many frames and forgets them.
struct SmallSink final : packet::FrameSink {
  std::span<std::uint8_t> reserve(const packet::Flow&, Qpn, std::size_t size) override {
    if (room == 0) return {};
    frame.resize(size);
    return frame;
  }
  void commit() override { --room; }
  bool full() const override { return room == 0; }
  int room = 0;
  std::vector<std::uint8_t> frame;
};

TEST(Drain, OfUcIsToldWhenTheLastPacketHasLeft) {
  Pair p{{.type_a = QpType::uc, .type_b = QpType::uc}};
  auto& rnic = p.c.a.node->rnic();
  ASSERT_EQ(p.c.a.send(p.request(SendKind::send, 5000, 1)), PostResult::posted);
  SmallSink sink;
  sink.room = 3;
  EXPECT_FALSE(rnic.work(sink, p.world.now()));
  engine::QpAttributes to;
  to.state = QpState::sqd;
  to.notify_drained = true;
  ASSERT_TRUE(rnic.modify_qp(*p.c.a.qp, to, Attr::kState | Attr::kNotifyDrained).ok());
  EXPECT_TRUE(rnic.events().empty());
  sink.room = 100;
  EXPECT_TRUE(rnic.work(sink, p.world.now()));
  ASSERT_EQ(rnic.events().size(), 1u);
  EXPECT_EQ(rnic.events()[0].kind, EventKind::sq_drained);
}

TEST(Events, AccessErrorIsToldToTheTarget) {
  Pair p{{}};
  auto bad = p.request(SendKind::write, 10);
  bad.rkey = Key{0x4711'0815};
  ASSERT_EQ(p.c.a.send(bad), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::remote_access_error);
  EXPECT_TRUE(p.c.b.node->saw(EventKind::qp_access_error));
}

TEST(Congestion, MarkedPacketsAreToldToTheirSenderWhoSlowsDown) {
  Pair p{{}};
  std::uint32_t notices = 0;
  p.world.filter = [&](const packet::Flow& flow, std::span<const std::uint8_t> frame) {
    if (frame[0] == static_cast<std::uint8_t>(packet::Opcode::cnp)) ++notices;
    if (flow.source != p.c.a.node->address()) return true;
    std::vector<std::uint8_t> bytes(frame.begin(), frame.end());
    bytes.resize(bytes.size() + packet::kIcrcSize);
    p.c.b.node->rnic().receive(test::delivered({.source = flow.source,
                                                .destination = flow.destination,
                                                .source_port = flow.source_port,
                                                .traffic_class = 3,
                                                .bytes = bytes}),
                               p.world.now());
    return false;
  };
  ASSERT_EQ(p.c.a.send(p.request(SendKind::write, 200'000)), PostResult::posted);
  const Instant start = p.world.now();
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  EXPECT_GT(notices, 0u);
  EXPECT_LE(notices, 1 + (p.world.now() - start) / 50us);
  EXPECT_EQ(p.c.a.node->rnic().counters().rcvd_cnps, notices);
}

// ---- registrations

TEST(Registration, ZeroBasedAndReregistered) {
  Pair p{{}};
  auto& rnic = p.c.b.node->rnic();
  std::vector<std::uint8_t> bytes(4096);
  const auto region = p.c.b.node->expose(p.c.b.pd, bytes, kAll | Access::kZeroBased);
  auto r = p.request(SendKind::write, 100);
  r.remote_address = 96;
  r.rkey = region.key;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::success);
  EXPECT_EQ(bytes[96], p.memory_a[0]);

  const auto changed = rnic.reregister_memory(region.key, {}, {}, Access::kRemoteRead);
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(changed->key, region.key);
  r.remote_address = changed->iova;
  ASSERT_EQ(p.c.a.send(r), PostResult::posted);
  EXPECT_EQ(p.wait(p.c.a, 1)[0].status, CompletionStatus::remote_access_error);
}

}  // namespace
}  // namespace verbena::sim
