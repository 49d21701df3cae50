// What a responder says to each request, packet by packet: B is a queue pair, the test plays A.

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/sim/world.h"
#include "tests/support/datagram.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Attr;
using engine::CompletionStatus;
using engine::PostResult;
using engine::QpState;
using engine::SendKind;
using engine::Sge;
using packet::NakCode;
using packet::Opcode;
using packet::Packet;
using packet::Syndrome;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kMtu = 1024;

struct Answer {
  Bytes bytes;
  Packet packet;
};

struct RcAnswers : testing::Test {
  explicit RcAnswers(const ConnectOptions& options = {.mtu = kMtu, .rd_atomic = 4})
      : world{7, {}}, c{world, options}, memory(1u << 16), payload(1u << 16), first{options.psn_a} {
    std::iota(payload.begin(), payload.end(), std::uint8_t{1});
    region = c.b.node->expose(c.b.pd, memory,
                              Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead |
                                  Access::kRemoteAtomic | Access::kBindWindow);
    world.filter = [this](const packet::Flow& flow, std::span<const std::uint8_t> frame) {
      if (flow.source == c.b.node->address()) take(frame);
      return false;  // A hears nothing
    };
  }

  void take(std::span<const std::uint8_t> frame) {
    Answer a{.bytes = {frame.begin(), frame.end()}, .packet = {}};
    a.bytes.resize(a.bytes.size() + packet::kIcrcSize);
    a.packet = std::get<Packet>(packet::parse(a.bytes));
    taken.push_back(std::move(a));
  }

  /// A request with the `n`th PSN.
  Packet request(Opcode opcode, std::uint32_t n) {
    Packet p;
    p.bth.opcode = opcode;
    p.bth.destination = c.b.qp->qpn;
    p.bth.psn = first + n;
    p.bth.ack_request = true;
    p.reth = {region.iova, region.key, 0};
    p.atomic_eth = {region.iova, region.key, 5, 0};
    return p;
  }

  /// It arrives at B, with so many bytes of payload.
  void deliver(Packet p, std::uint32_t size = 0) {
    p.payload = std::span{payload}.first(size);
    p.bth.pad = packet::pad_of(size);
    Bytes bytes(packet::frame_size(p.bth.opcode, size) + packet::kIcrcSize);
    packet::encode(p, bytes);
    c.b.node->rnic().receive(test::delivered({.source = c.a.node->address(),
                                              .destination = c.b.node->address(),
                                              .source_port = 0xc000,
                                              .bytes = bytes}),
                             world.now());
  }
  void deliver_write(std::uint32_t n, std::uint32_t size) {
    Packet p = request(Opcode::rc_write_only, n);
    p.reth.length = size;
    deliver(p, size);
  }
  void deliver_read(std::uint32_t n, std::uint32_t size) {
    Packet p = request(Opcode::rc_read_request, n);
    p.reth.length = size;
    deliver(p);
  }

  /// Another queue pair of B, in the same domain, ready to serve A.
  engine::QueuePair& second_in_rtr() {
    engine::Rnic& rnic = c.b.node->rnic();
    engine::QueuePair& second =
        *rnic.create_qp({.pd = c.b.pd, .send_cq = c.b.cq.get(), .receive_cq = c.b.cq.get()})
             .value();
    engine::QpAttributes a = c.b.qp->attributes;
    a.state = QpState::init;
    EXPECT_TRUE(
        rnic.modify_qp(second, a, Attr::kState | Attr::kPkeyIndex | Attr::kPort | Attr::kAccess)
            .ok());
    a.state = QpState::rtr;
    EXPECT_TRUE(rnic.modify_qp(second, a,
                               Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn |
                                   Attr::kRqPsn | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer)
                    .ok());
    return second;
  }

  /// What B says now.
  std::vector<Answer> answers() {
    (void)world.run_until([] { return false; }, 1us);
    return std::exchange(taken, {});
  }
  /// That is one NAK and the end of the queue pair.
  void expect_refused(NakCode code, std::uint32_t n) {
    const auto got = answers();
    ASSERT_FALSE(got.empty());
    EXPECT_EQ(got.back().packet.bth.opcode, Opcode::rc_acknowledge);
    EXPECT_EQ(got.back().packet.aeth.syndrome, Syndrome::nak(code));
    EXPECT_EQ(got.back().packet.bth.psn, first + n);
    EXPECT_EQ(c.b.qp->state.load(), QpState::error);
  }
  void expect_untouched() { EXPECT_EQ(memory, Bytes(memory.size())); }

  void post_receive(std::uint32_t length, std::uint64_t id) {
    const std::array sges{Sge{region.iova, length, region.key}};
    ASSERT_EQ(c.b.receive({.wr_id = id, .sges = sges}), PostResult::posted);
  }
  [[nodiscard]] std::uint64_t word() const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.data(), sizeof value);
    return value;
  }

  World world;
  Connection c;
  Bytes memory;
  Bytes payload;
  Psn first;
  engine::MemoryRegion region;
  std::vector<Answer> taken;
};

// ---- sequence

TEST_F(RcAnswers, OneNakForOneGap) {
  std::vector<Answer> got;
  for (std::uint32_t n = 1; n < 5; ++n) {
    deliver_write(n, 10);
    for (Answer& a : answers()) got.push_back(std::move(a));
  }
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.aeth.syndrome, Syndrome::nak(NakCode::psn_sequence_error));
  EXPECT_EQ(got[0].packet.bth.psn, first);
  expect_untouched();
}

TEST_F(RcAnswers, EachGapHasItsNak) {
  deliver_write(1, 10);
  EXPECT_EQ(answers().size(), 1u);
  deliver_write(0, 10);
  deliver_write(1, 10);
  EXPECT_EQ(answers().size(), 1u);  // one acknowledges both
  deliver_write(3, 10);
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.aeth.syndrome, Syndrome::nak(NakCode::psn_sequence_error));
  EXPECT_EQ(got[0].packet.bth.psn, first + 2);
}

TEST_F(RcAnswers, CarryTheNumberOfMessagesDone) {
  deliver_write(0, 10);
  auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.aeth.msn, 1u);
  EXPECT_EQ(got[0].packet.bth.psn, first);

  deliver_read(1, 3000);
  got = answers();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].packet.aeth.msn, 2u);
  EXPECT_EQ(got[2].packet.aeth.msn, 2u);

  Packet part = request(Opcode::rc_write_first, 4);
  part.reth.length = kMtu + 1;
  deliver(part, kMtu);
  got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.aeth.msn, 2u);  // it isn't done yet
  deliver(request(Opcode::rc_write_last, 5), 1);
  EXPECT_EQ(answers().at(0).packet.aeth.msn, 3u);
}

// ---- duplicates

TEST_F(RcAnswers, DuplicateAtomicGetsTheSavedAnswer) {
  memory[0] = 7;
  for (int i = 0; i < 3; ++i) {
    deliver(request(Opcode::rc_fetch_add, 0));
    const auto got = answers();
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].packet.bth.opcode, Opcode::rc_atomic_acknowledge);
    EXPECT_EQ(got[0].packet.atomic_ack_eth.original, 7u);
  }
  EXPECT_EQ(word(), 7u + 5u);
}

TEST_F(RcAnswers, EveryAtomicThatMayBeOutstandingIsSaved) {
  for (std::uint32_t n = 0; n < 4; ++n) {
    deliver(request(Opcode::rc_fetch_add, n));
    EXPECT_EQ(answers().size(), 1u);
  }
  for (std::uint32_t n = 0; n < 4; ++n) {
    deliver(request(Opcode::rc_fetch_add, n));
    const auto got = answers();
    ASSERT_EQ(got.size(), 1u) << n;
    EXPECT_EQ(got[0].packet.atomic_ack_eth.original, 5u * n);
  }
}

TEST_F(RcAnswers, DuplicateReadIsReadAgain) {
  deliver_read(0, 3000);
  EXPECT_EQ(answers().size(), 3u);
  memory[kMtu] = 42;
  // From its second packet on.
  Packet again = request(Opcode::rc_read_request, 1);
  again.reth.address += kMtu;
  again.reth.length = 3000 - kMtu;
  deliver(again);
  const auto got = answers();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].packet.bth.psn, first + 1);
  EXPECT_EQ(got[0].packet.payload[0], 42);
}

TEST_F(RcAnswers, DuplicateReadOfMemoryThatIsGoneIsRefusedButEndsNothing) {
  deliver_read(0, 100);
  EXPECT_EQ(answers().size(), 1u);
  Packet bad = request(Opcode::rc_read_request, 0);
  bad.reth.length = 100;
  bad.reth.rkey = Key{region.key.value() ^ 0x100};
  deliver(bad);
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.bth.psn, first);
  EXPECT_EQ(got[0].packet.aeth.syndrome, Syndrome::nak(NakCode::remote_access_error));
  // It may be a late copy of a request that was served long ago.
  EXPECT_EQ(c.b.qp->state.load(), QpState::rts);
  deliver_read(1, 100);
  EXPECT_EQ(answers().size(), 1u);
}

TEST_F(RcAnswers, DuplicateReadNeverReachesBeyondWhatWasAsked) {
  deliver_read(0, 100);
  EXPECT_EQ(answers().size(), 1u);
  deliver_read(0, kMtu + 1);
  EXPECT_TRUE(answers().empty());
}

// ---- refusals

TEST_F(RcAnswers, MiddleWithoutFirstIsRefused) {
  post_receive(4 * kMtu, 1);
  post_receive(4 * kMtu, 2);
  deliver(request(Opcode::rc_send_only, 0), 0);
  EXPECT_EQ(answers().size(), 1u);
  deliver(request(Opcode::rc_send_middle, 1), kMtu);
  expect_refused(NakCode::invalid_request, 1);
  expect_untouched();
}

TEST_F(RcAnswers, MessageOfAnotherKindInTheMiddleIsRefused) {
  post_receive(4 * kMtu, 1);
  deliver(request(Opcode::rc_send_first, 0), kMtu);
  (void)answers();
  deliver_write(1, 10);
  expect_refused(NakCode::invalid_request, 1);
}

TEST_F(RcAnswers, QueuePairThatPermitsNothingIsNotWritten) {
  ASSERT_TRUE(c.b.node->rnic().modify_qp(*c.b.qp, {.access = 0}, Attr::kAccess).ok());
  deliver_write(0, 10);
  expect_refused(NakCode::invalid_request, 0);
  expect_untouched();
}

TEST_F(RcAnswers, OneReadMoreThanAgreedIsRefused) {
  for (std::uint32_t n = 0; n < 5; ++n) deliver_read(n, 10);
  expect_refused(NakCode::invalid_request, 4);
}

TEST_F(RcAnswers, WriteLongerThanItSaidIsRefused) {
  Packet p = request(Opcode::rc_write_first, 0);
  p.reth.length = kMtu + 10;
  deliver(p, kMtu);
  (void)answers();
  deliver(request(Opcode::rc_write_last, 1), 11);
  expect_refused(NakCode::invalid_request, 1);
  EXPECT_EQ(memory[kMtu], 0);
}

TEST_F(RcAnswers, WriteThatNeverEndsIsRefused) {
  Packet p = request(Opcode::rc_write_first, 0);
  p.reth.length = 2 * kMtu;
  deliver(p, kMtu);
  (void)answers();
  deliver(request(Opcode::rc_write_middle, 1), kMtu);  // the bytes are through, the message not
  expect_refused(NakCode::invalid_request, 1);
}

TEST_F(RcAnswers, RegionThatGoesAwayInTheMiddleOfAMessageIsNotWritten) {
  Packet p = request(Opcode::rc_write_first, 0);
  p.reth.length = kMtu + 10;
  deliver(p, kMtu);
  (void)answers();
  ASSERT_TRUE(c.b.node->rnic().deregister_memory(region.key).ok());
  deliver(request(Opcode::rc_write_last, 1), 10);
  expect_refused(NakCode::remote_access_error, 1);
  EXPECT_EQ(memory[kMtu], 0);
}

TEST_F(RcAnswers, ShortMiddlePacketIsRefused) {
  post_receive(4 * kMtu, 1);
  deliver(request(Opcode::rc_send_first, 0), kMtu - 4);
  expect_refused(NakCode::invalid_request, 0);
  expect_untouched();
}

TEST_F(RcAnswers, AtomicOnAnUnalignedWordIsRefused) {
  Packet p = request(Opcode::rc_fetch_add, 0);
  p.atomic_eth.address += 4;
  deliver(p);
  expect_refused(NakCode::invalid_request, 0);
  expect_untouched();
}

TEST_F(RcAnswers, AtomicOnAWordThatOnlyThePeerCallsAlignedIsRefused) {
  Bytes bytes(64);
  std::uint8_t* const odd = bytes.data() + 4;
  const auto crooked = c.b.node->expose(
      c.b.pd, {odd, 32},
      Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteAtomic | Access::kZeroBased);
  Packet p = request(Opcode::rc_fetch_add, 0);
  p.atomic_eth.address = 8;
  p.atomic_eth.rkey = crooked.key;
  deliver(p);
  expect_refused(NakCode::invalid_request, 0);
  EXPECT_EQ(bytes, Bytes(64));
}

TEST_F(RcAnswers, FirstRequestToAQueuePairInRtrIsToldOnce) {
  Packet p = request(Opcode::rc_write_only, 0);
  p.bth.destination = second_in_rtr().qpn;
  p.reth.length = 10;
  for (std::uint32_t n = 0; n < 3; ++n) {
    p.bth.psn = first + n;
    deliver(p, 10);
    (void)answers();
  }
  const auto& events = c.b.node->events;
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const auto& e) {
                            return e.kind == engine::EventKind::communication_established;
                          }),
            1);
}

TEST_F(RcAnswers, QueuePairThatGoesRepeatsItsLastAcknowledgement) {
  post_receive(kMtu, 1);
  deliver(request(Opcode::rc_send_only, 0), 8);
  ASSERT_EQ(answers().size(), 1u);
  c.b.node->destroy(*c.b.qp);
  const auto last = answers();
  ASSERT_FALSE(last.empty());
  for (const Answer& a : last) {
    EXPECT_EQ(a.packet.aeth.syndrome.type(), Syndrome::Type::ack);
    EXPECT_EQ(a.packet.bth.psn, first);
    EXPECT_EQ(a.packet.aeth.msn, 1u);
  }
}

TEST_F(RcAnswers, QueuePairThatExecutedNothingGoesInSilence) {
  c.b.node->destroy(*c.b.qp);
  EXPECT_TRUE(answers().empty());
}

struct SmallQueueAnswers : RcAnswers {
  SmallQueueAnswers() : RcAnswers{{.mtu = kMtu, .rd_atomic = 4, .depth = 1}} {}
};

TEST_F(SmallQueueAnswers, SendWhoseCompletionIsLostIsNotAcknowledged) {
  for (std::uint32_t n = 0; n < c.b.cq->capacity(); ++n) {
    post_receive(10, n);
    deliver(request(Opcode::rc_send_only, n), 10);
    EXPECT_EQ(answers().size(), 1u);
  }
  post_receive(10, 99);
  deliver(request(Opcode::rc_send_only, c.b.cq->capacity()), 10);
  for (const Answer& a : answers()) {
    EXPECT_NE(a.packet.aeth.syndrome.type(), Syndrome::Type::ack);
  }
  EXPECT_EQ(c.b.qp->state.load(), QpState::error);
}

// ---- frames that are for somebody else

TEST_F(RcAnswers, FrameOfAnotherPartitionIsDropped) {
  Packet p = request(Opcode::rc_write_only, 0);
  p.bth.pkey = 0x8001;
  p.reth.length = 10;
  deliver(p, 10);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(c.b.node->rnic().counters().drop_pkey, 1u);
  expect_untouched();
}

TEST_F(RcAnswers, FrameOfAnotherServiceIsDropped) {
  Packet p = request(Opcode::uc_write_only, 0);
  p.reth.length = 10;
  deliver(p, 10);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(c.b.node->rnic().counters().drop_service, 1u);
  expect_untouched();
}

// ---- keys

struct RemoteKey : RcAnswers {
  CompletionStatus bind(Key window, const engine::MemoryRegion& to, unsigned access) {
    engine::SendRequest r{.wr_id = 77, .kind = SendKind::bind_window, .signaled = true};
    r.binding = {.window = window,
                 .new_key = window,
                 .region = to.key,
                 .address = to.iova,
                 .length = to.length,
                 .access = access};
    EXPECT_EQ(c.b.send(r), PostResult::posted);
    (void)answers();
    const auto got = c.b.poll();
    return got.empty() ? CompletionStatus::general_error : got[0].status;
  }
  Key new_window() {
    return c.b.node->rnic().alloc_window(c.b.pd, engine::MemoryRegion::Type::window_2).value();
  }
};

TEST_F(RemoteKey, OfAnotherDomainIsRefused) {
  Bytes secret(100);
  const auto pd = c.b.node->rnic().alloc_pd().value();
  const auto other = c.b.node->expose(pd, secret, Access::kLocalWrite | Access::kRemoteWrite);
  Packet p = request(Opcode::rc_write_only, 0);
  p.reth = {other.iova, other.key, 10};
  deliver(p, 10);
  expect_refused(NakCode::remote_access_error, 0);
  EXPECT_EQ(secret, Bytes(100));
}

TEST_F(RemoteKey, OfAWindowThatAnotherQueuePairBoundIsRefused) {
  const Key window = new_window();
  ASSERT_EQ(bind(window, region, Access::kRemoteWrite), CompletionStatus::success);
  Packet p = request(Opcode::rc_write_only, 0);
  p.bth.destination = second_in_rtr().qpn;
  p.reth = {region.iova, window, 10};
  deliver(p, 10);
  const auto got = answers();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].packet.aeth.syndrome, Syndrome::nak(NakCode::remote_access_error));
  expect_untouched();
  // Its owner may.
  p.bth.destination = c.b.qp->qpn;
  deliver(p, 10);
  EXPECT_EQ(answers().at(0).packet.aeth.syndrome.type(), Syndrome::Type::ack);
}

TEST_F(RemoteKey, WindowCannotWriteWhatItsRegionCannot) {
  Bytes constant(100);
  const auto read_only = c.b.node->expose(c.b.pd, constant, Access::kBindWindow);
  EXPECT_EQ(bind(new_window(), read_only, Access::kRemoteWrite),
            CompletionStatus::window_bind_error);
}

// ---- XRC

struct XrcAnswers : RcAnswers {
  XrcAnswers()
      : RcAnswers{{.mtu = kMtu,
                   .rd_atomic = 4,
                   .type_a = engine::QpType::xrc_send,
                   .type_b = engine::QpType::xrc_receive}} {}
  void deliver_part(Opcode opcode, std::uint32_t n, std::uint32_t srq) {
    Packet p = request(opcode, n);
    p.xrceth.xrcsrq = srq;
    deliver(p, kMtu);
  }
};

TEST_F(XrcAnswers, MessageCompletesInTheQueueThatItBeganWith) {
  engine::CompletionQueue other_cq{16};
  auto* other =
      c.b.node->rnic()
          .create_srq(
              {.pd = c.b.pd, .depth = 4, .max_sge = 1, .xrc_cq = &other_cq, .xrcd = c.b.qp->xrcd})
          .value();
  post_receive(4 * kMtu, 1);
  deliver_part(Opcode::xrc_send_first, 0, c.b.srq->number);
  deliver_part(Opcode::xrc_send_last, 1, other->number);
  (void)answers();
  EXPECT_TRUE(other_cq.empty());
  const auto got = c.b.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id, 1u);
}

TEST_F(XrcAnswers, ReceiveQueueThatGoesAwayUnderAMessageTakesTheQueuePairAlong) {
  post_receive(4 * kMtu, 1);
  const std::uint32_t number = c.b.srq->number;
  deliver_part(Opcode::xrc_send_first, 0, number);
  (void)answers();
  ASSERT_TRUE(c.b.node->rnic().destroy_srq(*c.b.srq).ok());
  EXPECT_EQ(c.b.qp->state.load(), QpState::error) << "at once, not with the next packet";
  deliver_part(Opcode::xrc_send_last, 1, number);
  for (const Answer& a : answers()) {
    EXPECT_NE(a.packet.aeth.syndrome.type(), Syndrome::Type::ack);
  }
  EXPECT_EQ(c.b.qp->state.load(), QpState::error);
}

}  // namespace
}  // namespace verbena::sim
