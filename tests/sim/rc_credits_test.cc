// End-to-end credits (IBA 9.7.7.2): A is a queue pair, the test plays a peer that counts its
// receives. Ours reports none (rxe doesn't either; shared receive queues must not).

#include <gtest/gtest.h>

#include <numeric>

#include "engine/credits.h"
#include "tests/sim/program.h"
#include "tests/sim/seeds.h"
#include "tests/sim/world.h"
#include "tests/support/datagram.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::CompletionStatus;
using engine::Credits;
using engine::PostResult;
using engine::SendKind;
using engine::Sge;
using packet::Opcode;
using packet::Packet;
using packet::Syndrome;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kMtu = 1024;

TEST(Credits, AreTheCountsOfTheTable) {
  constexpr std::array<std::uint32_t, 8> kSmall{0, 1, 2, 3, 4, 6, 8, 12};
  for (std::size_t code = 0; code < kSmall.size(); ++code) {
    EXPECT_EQ(Credits::count_of(static_cast<std::uint8_t>(code)), kSmall[code]);
  }
  for (std::uint8_t code = 6; code <= 30; ++code) {  // each second one doubles
    EXPECT_EQ(Credits::count_of(code), 2 * Credits::count_of(static_cast<std::uint8_t>(code - 2)));
  }
  EXPECT_EQ(Credits::count_of(30), 32'768u);
}

struct RcCredits : testing::Test {
  RcCredits() : world{7, {}}, c{world, {.mtu = kMtu, .depth = 32}}, memory(1u << 16) {
    region = c.a.node->expose(c.a.pd, memory, Access::kLocalWrite);
    world.filter = [this](const packet::Flow& flow, std::span<const std::uint8_t> frame) {
      if (flow.source != c.a.node->address()) return false;
      Bytes bytes(frame.begin(), frame.end());
      bytes.resize(bytes.size() + packet::kIcrcSize);
      sent.push_back(std::get<Packet>(packet::parse(bytes)).bth);
      return false;
    };
  }

  void post(SendKind kind, std::uint32_t length, std::uint64_t id = 0) {
    const std::array sges{Sge{region.iova, length, region.key}};
    ASSERT_EQ(c.a.send({.wr_id = id,
                        .kind = kind,
                        .signaled = true,
                        .remote_address = 0x1000,
                        .rkey = Key{0x1234},
                        .sges = sges}),
              PostResult::posted);
  }
  /// What A sends now.
  std::vector<packet::Bth> flight() {
    (void)world.run_until([] { return false; }, 1us);
    return std::exchange(sent, {});
  }
  void answer(Psn psn, Syndrome syndrome, Opcode opcode = Opcode::rc_acknowledge,
              std::uint32_t size = 0) {
    Packet p;
    p.bth.opcode = opcode;
    p.bth.destination = c.a.qp->qpn;
    p.bth.psn = psn;
    p.aeth = {syndrome, 1};
    const Bytes payload(size);
    p.payload = payload;
    Bytes bytes(packet::frame_size(opcode, size) + packet::kIcrcSize);
    packet::encode(p, bytes);
    c.a.node->rnic().receive(test::delivered({.source = c.b.node->address(),
                                              .destination = c.a.node->address(),
                                              .source_port = 0xc000,
                                              .bytes = bytes}),
                             world.now());
  }
  /// The first message is through, and the peer has so many receives more.
  void begin_with(std::uint8_t credits) {
    post(SendKind::send, 8);
    const auto first = flight();
    ASSERT_EQ(first.size(), 1u);
    answer(first[0].psn, Syndrome::ack(credits));
    EXPECT_EQ(c.a.poll().size(), 1u);
  }

  World world;
  Connection c;
  Bytes memory;
  engine::MemoryRegion region;
  std::vector<packet::Bth> sent;
};

TEST_F(RcCredits, PeerThatReportsNoneIsSentEverything) {
  begin_with(Syndrome::kNoCredits);
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  EXPECT_EQ(flight().size(), 8u);
}

TEST_F(RcCredits, OneMessageMoreThanThereAreReceivesMayAsk) {
  begin_with(2);
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  const auto got = flight();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(got[2].ack_request);
  EXPECT_TRUE(flight().empty());
}

TEST_F(RcCredits, MessageThatAsksSendsOnePacketAndGoesOnWhenThatIsTaken) {
  begin_with(0);
  post(SendKind::send, 3 * kMtu);
  post(SendKind::send, 8);
  auto got = flight();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, Opcode::rc_send_first);
  EXPECT_TRUE(got[0].ack_request);
  answer(got[0].psn, Syndrome::ack(0));  // it has a receive, and none for the next
  got = flight();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].opcode, Opcode::rc_send_last);
  answer(got[1].psn, Syndrome::ack(0));
  EXPECT_EQ(flight().size(), 1u);  // the next asks
}

TEST_F(RcCredits, EachAcknowledgementCountsFromWhatItAcknowledges) {
  begin_with(2);
  for (int i = 0; i < 12; ++i) post(SendKind::send, 8);
  auto got = flight();
  ASSERT_EQ(got.size(), 3u);
  answer(got[0].psn, Syndrome::ack(1));  // the same two receives: one of them is used up
  EXPECT_TRUE(flight().empty());
  answer(got[1].psn, Syndrome::ack(4));
  EXPECT_EQ(flight().size(), 4u);  // 3 … 6 have a receive, 7 asks; 3 has left before
}

TEST_F(RcCredits, WritesAndReadsNeedNone) {
  begin_with(0);
  for (int i = 0; i < 3; ++i) post(SendKind::write, 2 * kMtu);
  post(SendKind::read, 8);
  EXPECT_EQ(flight().size(), 2 * 3 + 1u);
  for (int i = 0; i < 3; ++i) post(SendKind::write_immediate, 8);
  EXPECT_EQ(flight().size(), 1u);
}

TEST_F(RcCredits, NewReceivesAreToldByTheSameAcknowledgementAgain) {
  begin_with(0);
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  const auto probe = flight();
  ASSERT_EQ(probe.size(), 1u);
  answer(probe[0].psn, Syndrome::ack(0));
  const auto next = flight();
  ASSERT_EQ(next.size(), 1u);
  answer(probe[0].psn, Syndrome::ack(3));  // unsolicited
  EXPECT_EQ(flight().size(), 3u);
  answer(probe[0].psn, Syndrome::ack(1));  // late: nothing is taken back, nothing is given
  EXPECT_TRUE(flight().empty());
}

TEST_F(RcCredits, ReadResponseTellsOfReceives) {
  begin_with(0);
  post(SendKind::read, 8);
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  const auto got = flight();
  ASSERT_EQ(got.size(), 2u);
  answer(got[0].psn, Syndrome::ack(4), Opcode::rc_read_response_only, 8);
  EXPECT_EQ(flight().size(), 4u);
}

TEST_F(RcCredits, MessageThatAskedInVainAsksAgainWhenItsTimeHasCome) {
  begin_with(0);
  post(SendKind::send, 2 * kMtu);
  const auto probe = flight();
  ASSERT_EQ(probe.size(), 1u);
  answer(probe[0].psn, Syndrome::rnr_nak(1));  // 10 µs
  EXPECT_TRUE(flight().empty());
  (void)world.run_until([] { return false; }, 20us);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].psn, probe[0].psn);
}

/// As the kernel's rxe: of a burst that finds no receive, the first gets an RNR NAK and the next
/// one a sequence NAK. The second one is no news, and no retry, however long the receiver takes.
TEST_F(RcCredits, SequenceNakBehindAnRnrNakUsesUpNoRetry) {
  begin_with(Syndrome::kNoCredits);
  for (int i = 0; i < 4; ++i) post(SendKind::send, 8);
  auto got = flight();
  for (int round = 0; round < 20; ++round) {
    ASSERT_GE(got.size(), 2u) << "round " << round;
    answer(got[0].psn, Syndrome::rnr_nak(1));  // 10 µs
    for (int i = 0; i < 10; ++i) {             // more than there are retries
      answer(got[0].psn, Syndrome::nak(packet::NakCode::psn_sequence_error));
    }
    EXPECT_TRUE(flight().empty()) << "it was told to wait";
    (void)world.run_until([] { return false; }, 20us);
    got = std::exchange(sent, {});
  }
  EXPECT_TRUE(c.a.poll().empty()) << "no error";
  answer(got.back().psn, Syndrome::ack(Syndrome::kNoCredits));
  EXPECT_EQ(c.a.poll().size(), got.size());
}

/// The same, but the second NAK is so late that the burst has been sent again.
TEST_F(RcCredits, LateSequenceNakBehindAnRnrNakUsesUpNoRetryEither) {
  begin_with(Syndrome::kNoCredits);
  for (int i = 0; i < 4; ++i) post(SendKind::send, 8);
  auto got = flight();
  for (int round = 0; round < 20; ++round) {
    ASSERT_GE(got.size(), 2u) << "round " << round;
    answer(got[0].psn, Syndrome::rnr_nak(1));  // 10 µs
    (void)world.run_until([] { return false; }, 20us);
    answer(got[0].psn, Syndrome::nak(packet::NakCode::psn_sequence_error));
    sent.clear();
    got = flight();
  }
  EXPECT_TRUE(c.a.poll().empty()) << "no error";
}

/// But who only says that something is missing, and never "not ready", is asked so often and no
/// more.
TEST_F(RcCredits, SequenceNaksAloneUseUpTheRetries) {
  begin_with(Syndrome::kNoCredits);
  for (int i = 0; i < 4; ++i) post(SendKind::send, 8);
  const auto got = flight();
  ASSERT_GE(got.size(), 2u);
  for (int round = 0; round < 20; ++round) {
    answer(got[0].psn, Syndrome::nak(packet::NakCode::psn_sequence_error));
    static_cast<void>(flight());
  }
  const auto done = c.a.poll();
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done[0].status, CompletionStatus::retry_exceeded);
}

TEST_F(RcCredits, AreForgottenWithTheConnection) {
  begin_with(0);
  engine::QpAttributes to;
  to.state = engine::QpState::reset;
  ASSERT_TRUE(c.a.node->rnic().modify_qp(*c.a.qp, to, engine::Attr::kState).ok());
  connect(c.a, c.b, {.mtu = kMtu}, Psn{1}, Psn{2});
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  auto got = flight();
  ASSERT_EQ(got.size(), 8u);
  answer(got[0].psn, Syndrome::ack(6));  // 1 … 8 have a receive, 9 asks
  for (int i = 0; i < 8; ++i) post(SendKind::send, 8);
  EXPECT_EQ(flight().size(), 2u);
}

/// From now on B's answers tell how many receives it has, as a peer that counts would.
void report_credits(World& world, Connection& c) {
  world.filter = [&c](const packet::Flow& flow, std::span<std::uint8_t> frame) {
    if (flow.source != c.b.node->address()) return true;
    const auto& info = packet::info_of(static_cast<Opcode>(frame[0]));
    std::uint8_t& syndrome = frame[packet::Bth::kSize];
    if (!info.aeth || Syndrome{syndrome}.type() != Syndrome::Type::ack) return true;
    std::uint8_t code = 30;
    while (Credits::count_of(code) > c.b.qp->rq.size()) --code;
    syndrome = Syndrome::ack(code).value();
    return true;
  };
}

TEST(CreditsProperty, NothingIsLostAndNothingWaitsForEver) {
  each_seed(2000, [](std::uint64_t seed) {
    Chance chance{seed};
    World world{seed + 1, random_link(chance)};
    ConnectOptions o{.timeout = 12, .depth = 1 + chance.pick(16)};
    o.mtu = static_cast<std::uint16_t>(256u << chance.pick(3));
    Connection c{world, o};
    report_credits(world, c);
    Program program{chance, c, o};
    ASSERT_TRUE(world.run_until(
        [&] {
          program.step();
          return program.through();
        },
        120s))
        << "stuck";
    program.check_all_done();
  });
}

/// A receiver that is slow to post and honest about it: nobody has to wait for an RNR timer but
/// the one that asks.
TEST(RcCreditsSlowReceiver, GetsEverythingOnce) {
  World world{7, {}};
  Connection c{world, {.mtu = kMtu}};
  Bytes from(1u << 12);
  Bytes to(1u << 12);
  const auto region_a = c.a.node->expose(c.a.pd, from, 0);
  const auto region_b = c.b.node->expose(c.b.pd, to, Access::kLocalWrite);
  report_credits(world, c);
  constexpr std::uint64_t kMessages = 500;
  std::uint64_t posted = 0;
  std::uint64_t receives = 0;
  std::uint64_t arrived = 0;
  std::uint64_t completed = 0;
  ASSERT_TRUE(world.run_until(
      [&] {
        completed += c.a.poll().size();
        for (const auto& completion : c.b.poll()) {
          EXPECT_EQ(completion.status, CompletionStatus::success);
          EXPECT_EQ(completion.wr_id, arrived++);
        }
        const std::array sges_b{Sge{region_b.iova, 4096, region_b.key}};
        if (receives - arrived < 2 && receives < kMessages) {
          EXPECT_EQ(c.b.receive({.wr_id = receives++, .sges = sges_b}), PostResult::posted);
        }
        const std::array sges_a{Sge{region_a.iova, 3000, region_a.key}};
        // The first acknowledgement tells that this peer counts.
        if (posted < (completed > 0 ? kMessages : 1) &&
            c.a.send({.wr_id = posted, .signaled = true, .sges = sges_a}) == PostResult::posted) {
          ++posted;
        }
        return arrived == kMessages;
      },
      60s));
  EXPECT_LT(c.b.node->rnic().counters().out_of_seq_request, 10u) << "packets that had no chance";
}

}  // namespace
}  // namespace verbena::sim
