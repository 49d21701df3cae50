// The way of a queue pair's frames: who chooses it, when it may change, and what comes another way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/entropy.h"
#include "engine/observer.h"
#include "engine/rnic.h"
#include "memory/null_memory.h"
#include "tests/support/datagram.h"

namespace verbena::engine::ways_test {
namespace {

using namespace std::chrono_literals;
using packet::Course;
using packet::Detour;
using packet::Opcode;
using packet::Way;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr IpAddress kHere = IpAddress::v4({10, 0, 0, 1});
constexpr IpAddress kPeer = IpAddress::v4({10, 0, 0, 2});
constexpr std::uint32_t kPeerSlot = 3;
constexpr Qpn kPeerQpn{kPeerSlot << Qpn::kIndexBits | 0x77};
constexpr Psn kFirst{42};
constexpr Course kHost{Way::host, Detour::none};
constexpr Course kDeclined{Way::network, Detour::peer_declines};

/// Offers the way that the test says, and notes those of the frames.
class Sink final : public packet::FrameSink {
 public:
  Course choose_way(const packet::Flow&, Qpn) override { return offered; }
  std::span<std::uint8_t> reserve(const packet::Flow& flow, Qpn, std::size_t size) override {
    sent.push_back(flow.way);
    frame_.resize(size);
    return frame_;
  }
  void commit() override {}
  bool full() const override { return false; }

  Course offered = kHost;
  std::vector<Way> sent;

 private:
  std::vector<std::uint8_t> frame_;
};

class Notes final : public Observer {
 public:
  void created(const QueuePair&) override {}
  void destroyed(const QueuePair&) override {}
  void sent(const QueuePair&, const packet::Flow&, const packet::Packet&, std::size_t,
            bool) override {}
  void received(const QueuePair&, const packet::Datagram&, const packet::Packet&) override {}
  void dropped(const DroppedFrame& frame) override { drops.push_back(frame.reason); }
  void retried(const QueuePair&, RetryCause, Psn) override {}
  void chose_way(const QueuePair&, Course course) override { chosen.push_back(course); }
  void answers_by(const QueuePair&, Way way) override { answers.push_back(way); }
  void completed(const Completion&) override {}
  void state_changed(const QueuePair&, QpState, QpState) override {}

  std::vector<Course> chosen;
  std::vector<Way> answers;
  std::vector<std::string_view> drops;
};

struct Numbers final : Entropy {
  std::uint32_t next() override { return random = random * 1664525 + 1013904223; }
  std::uint32_t random = 7;
};

class Ways : public testing::Test {
 protected:
  Ways() {
    rnic.observe(&notes);
    qp = rnic.create_qp({.pd = rnic.alloc_pd().value(),
                         .send_cq = &cq,
                         .receive_cq = &cq,
                         .max_send = 64,
                         .max_receive = 1,
                         .max_send_sge = 1,
                         .max_receive_sge = 1})
             .value();
    QpAttributes a{.state = QpState::init};
    a.flow = {.source = kHere, .destination = kPeer, .source_port = 0xC000};
    a.dest_qpn = kPeerQpn;
    a.rq_psn = a.sq_psn = kFirst;
    a.access = Access::kRemoteWrite;
    a.timeout = 14;
    a.retry_count = 7;
    using A = Attr;
    move(a, QpState::init, A::kAccess | A::kPort | A::kPkeyIndex);
    move(a, QpState::rtr,
         A::kPath | A::kPathMtu | A::kDestQpn | A::kRqPsn | A::kMaxDestRdAtomic | A::kMinRnrTimer);
    move(a, QpState::rts,
         A::kSqPsn | A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kMaxRdAtomic);
  }
  void move(QpAttributes a, QpState to, unsigned mask) {
    a.state = to;
    ASSERT_TRUE(rnic.modify_qp(*qp, a, Attr::kState | mask).ok());
  }
  /// An empty WRITE.
  void send() {
    ASSERT_EQ(rnic.post_send(*qp, {.kind = SendKind::write}), PostResult::posted);
    (void)rnic.work(sink, now);
  }
  void arrives(Way way, Opcode opcode, Psn psn) {
    packet::Packet p;
    p.bth.opcode = opcode;
    p.bth.destination = qp->qpn;
    p.bth.psn = psn;
    p.bth.ack_request = true;
    p.aeth = {packet::Syndrome{0x1f}, 1};
    std::vector<std::uint8_t> frame(packet::frame_size(opcode, 0) + packet::kIcrcSize);
    packet::encode(p, frame);
    packet::Datagram d =
        test::delivered({.source = kPeer, .destination = kHere, .bytes = frame, .way = way});
    if (way == Way::host) d.sender = sender;
    rnic.receive(d, now);
    (void)rnic.work(sink, now);
  }

  memory::NullMemory nowhere;
  Numbers numbers;
  Notes notes;
  Rnic rnic{1, nowhere, numbers};
  CompletionQueue cq{256};
  QueuePair* qp = nullptr;
  Sink sink;
  Instant now{1s};
  std::uint32_t sender = kPeerSlot;  // of what arrives by rings
};

TEST_F(Ways, AreToldWhenChosenAndWhenChanged) {
  EXPECT_THAT(notes.chosen, IsEmpty());
  sink.offered = kDeclined;
  send();
  EXPECT_THAT(notes.chosen, ElementsAre(kDeclined));
  sink.offered = kHost;
  send();
  EXPECT_THAT(notes.chosen, ElementsAre(kDeclined)) << "the first is outstanding";
  EXPECT_THAT(sink.sent, ElementsAre(Way::network, Way::network));
  arrives(Way::network, Opcode::rc_acknowledge, kFirst.next());
  send();
  EXPECT_THAT(notes.chosen, ElementsAre(kDeclined, kHost));
  EXPECT_EQ(sink.sent.back(), Way::host);
}

TEST_F(Ways, OfAnswersAreThoseOfTheirRequests) {
  arrives(Way::network, Opcode::rc_write_only, kFirst);
  arrives(Way::host, Opcode::rc_write_only, kFirst.next());
  EXPECT_THAT(notes.answers, ElementsAre(Way::network, Way::host));
  EXPECT_EQ(sink.sent.back(), Way::host);
  EXPECT_THAT(notes.drops, IsEmpty());
}

TEST_F(Ways, ARequestFromTheNetworkIsNobodysWhereTheyComeByRings) {
  arrives(Way::host, Opcode::rc_write_only, kFirst);
  const auto answered = sink.sent.size();
  arrives(Way::network, Opcode::rc_write_only, kFirst.next());  // the very next
  arrives(Way::network, Opcode::rc_write_only, kFirst);         // a duplicate
  EXPECT_THAT(notes.drops, ElementsAre("drop_way", "drop_way"));
  EXPECT_EQ(qp->counters.drop_way, 2u);
  EXPECT_EQ(sink.sent.size(), answered) << "no answer";
  arrives(Way::host, Opcode::rc_write_only, kFirst.next());
  EXPECT_EQ(qp->responder.expected, kFirst.next().next());
  EXPECT_EQ(sink.sent.back(), Way::host);
}

TEST_F(Ways, AnAnswerFromTheNetworkIsNobodysWhereRequestsLeftByRings) {
  send();
  arrives(Way::network, Opcode::rc_acknowledge, kFirst);
  EXPECT_THAT(notes.drops, ElementsAre("drop_way"));
  EXPECT_EQ(qp->completer.unacked, kFirst);
  arrives(Way::host, Opcode::rc_acknowledge, kFirst);
  EXPECT_EQ(qp->completer.unacked, kFirst.next());
}

TEST_F(Ways, DontChangeWhenThePeerDies) {
  send();
  sink.offered = {Way::network, Detour::other_host};
  now = rnic.next_deadline();
  (void)rnic.work(sink, now);
  EXPECT_THAT(notes.chosen, ElementsAre(kHost));
  EXPECT_THAT(sink.sent, ElementsAre(Way::host, Way::host));
}

/// The ring was refused: nobody has read what was sent.
TEST_F(Ways, WhatWasInARingThatIsLostIsSentAgainAtOnceAnotherWay) {
  send();
  sink.offered = kDeclined;
  rnic.rings_lost(kPeerSlot + 1, now);
  (void)rnic.work(sink, now);
  EXPECT_THAT(sink.sent, ElementsAre(Way::host)) << "that was another's ring";
  rnic.rings_lost(kPeerSlot, now);
  (void)rnic.work(sink, now);
  EXPECT_THAT(notes.chosen, ElementsAre(kHost, kDeclined));
  EXPECT_THAT(sink.sent, ElementsAre(Way::host, Way::network));
  arrives(Way::network, Opcode::rc_acknowledge, kFirst);
  EXPECT_EQ(qp->completer.unacked, kFirst.next());
}

/// A queue pair may have no timeout at all.
TEST_F(Ways, WhatWasInARingThatIsLostNeedsNoTimer) {
  qp->attributes.timeout = 0;
  send();
  sink.offered = kDeclined;
  rnic.rings_lost(kPeerSlot, now);
  (void)rnic.work(sink, now);
  EXPECT_THAT(sink.sent, ElementsAre(Way::host, Way::network));
}

TEST_F(Ways, RequestsMayComeByTheNetworkWhenTheirRingIsLost) {
  arrives(Way::host, Opcode::rc_write_only, kFirst);
  rnic.rings_lost(kPeerSlot, now);
  arrives(Way::network, Opcode::rc_write_only, kFirst);
  arrives(Way::network, Opcode::rc_write_only, kFirst.next());
  EXPECT_THAT(notes.drops, IsEmpty());
  EXPECT_EQ(sink.sent.back(), Way::network);
}

TEST_F(Ways, OnlyThePeersProcessSpeaksForItByRings) {
  sender = kPeerSlot + 1;
  arrives(Way::host, Opcode::rc_write_only, kFirst);
  EXPECT_THAT(notes.drops, ElementsAre("drop_source"));
  EXPECT_THAT(notes.answers, IsEmpty());
  send();
  arrives(Way::host, Opcode::rc_acknowledge, kFirst);
  EXPECT_EQ(qp->completer.unacked, kFirst);
}

}  // namespace
}  // namespace verbena::engine::ways_test
