// Each reason for which the engine drops a frame is told to the observer, as often as it is
// counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/observer.h"
#include "engine/rnic.h"
#include "memory/null_memory.h"
#include "tests/support/datagram.h"
#include "tests/unit/engine/shortage.h"

namespace verbena::engine {
namespace {

using packet::Opcode;
using test::shortage;
using testing::ElementsAre;

constexpr IpAddress kHere = IpAddress::v4({10, 0, 0, 1});
constexpr IpAddress kPeer = IpAddress::v4({10, 0, 0, 2});
constexpr IpAddress kStranger = IpAddress::v4({10, 0, 0, 3});
constexpr std::uint32_t kQkey = 0x1111;

struct Dropped {
  std::string reason;
  std::optional<Qpn> qp;
  std::optional<Psn> psn;
  std::size_t bytes;

  friend bool operator==(const Dropped&, const Dropped&) = default;
};

class Drops final : public Observer {
 public:
  void created(const QueuePair&) override {}
  void destroyed(const QueuePair&) override {}
  void sent(const QueuePair&, const packet::Flow&, const packet::Packet&, std::size_t,
            bool) override {}
  void received(const QueuePair&, const packet::Datagram&, const packet::Packet&) override {}
  void retried(const QueuePair&, RetryCause, Psn) override {}
  void chose_way(const QueuePair&, packet::Course) override {}
  void answers_by(const QueuePair&, packet::Way) override {}
  void completed(const Completion&) override {}
  void state_changed(const QueuePair&, QpState, QpState) override {}
  void dropped(const DroppedFrame& frame) override {
    all.push_back({std::string{frame.reason},
                   frame.qp != nullptr ? std::optional{frame.qp->qpn} : std::nullopt,
                   frame.packet != nullptr ? std::optional{frame.packet->bth.psn} : std::nullopt,
                   frame.bytes.size()});
  }

  std::vector<Dropped> all;
};

struct Numbers final : Entropy {
  std::uint32_t next() override { return random = random * 1664525 + 1013904223; }
  std::uint32_t random = 7;
};

class ObserverDrops : public testing::Test {
 protected:
  ObserverDrops() { rnic.observe(&drops); }
  ~ObserverDrops() override { check_counters(); }

  QueuePair& make(QpType type) {
    return *rnic.create_qp({.pd = pd,
                            .send_cq = &cq,
                            .receive_cq = &cq,
                            .max_send = 4,
                            .max_receive = 4,
                            .max_send_sge = 1,
                            .max_receive_sge = 1,
                            .type = type})
                .value();
  }
  /// Up to RTS, or not at all.
  QueuePair& connected() {
    QueuePair& qp = make(QpType::rc);
    QpAttributes a{.state = QpState::init};
    a.flow = {.source = kHere, .destination = kPeer, .source_port = 0xC000};
    a.dest_qpn = Qpn{0x77};
    using A = Attr;
    move(qp, a, QpState::init, A::kAccess | A::kPort | A::kPkeyIndex);
    move(qp, a, QpState::rtr,
         A::kPath | A::kPathMtu | A::kDestQpn | A::kRqPsn | A::kMaxDestRdAtomic | A::kMinRnrTimer);
    move(qp, a, QpState::rts,
         A::kSqPsn | A::kTimeout | A::kRetryCount | A::kRnrRetry | A::kMaxRdAtomic);
    return qp;
  }
  QueuePair& datagrams() {
    QueuePair& qp = make(QpType::ud);
    QpAttributes a{.state = QpState::init, .qkey = kQkey};
    move(qp, a, QpState::init, Attr::kPort | Attr::kPkeyIndex | Attr::kQkey);
    move(qp, a, QpState::rtr, 0);
    return qp;
  }
  void move(QueuePair& qp, QpAttributes a, QpState to, unsigned mask) {
    a.state = to;
    ASSERT_TRUE(rnic.modify_qp(qp, a, Attr::kState | mask).ok());
  }

  static packet::Packet packet_for(Qpn to, Opcode opcode) {
    packet::Packet p;
    p.bth.opcode = opcode;
    p.bth.destination = to;
    p.bth.psn = kPsn;
    p.deth = {kQkey, Qpn{0x88}};
    return p;
  }
  void deliver(const packet::Packet& p, const IpAddress& from = kPeer,
               const IpAddress& to = kHere) {
    std::vector<std::uint8_t> frame(packet::frame_size(p.bth.opcode, p.payload.size()) +
                                    packet::kIcrcSize);
    packet::encode(p, frame);
    deliver(frame, from, to);
  }
  void deliver(std::span<const std::uint8_t> frame, const IpAddress& from, const IpAddress& to) {
    rnic.receive(test::delivered({.source = from, .destination = to, .bytes = frame}), Instant{});
  }

  /// What one of them looks like.
  static Dropped of(const char* reason, const QueuePair& qp) { return {reason, qp.qpn, kPsn, 0}; }
  static Dropped unclaimed(const char* reason) { return {reason, std::nullopt, kPsn, 0}; }

  void check_counters() const {
    const Counters counters = rnic.counters();
    for (const CounterInfo& c : kCounters) {
      if (!c.name.starts_with("drop_")) continue;
      const auto told = std::ranges::count(drops.all, c.name, &Dropped::reason);
      EXPECT_EQ(counters.*c.value, static_cast<std::uint64_t>(told)) << c.name;
    }
  }

  static constexpr Psn kPsn{42};

  memory::NullMemory memory;
  Numbers numbers;
  Drops drops;
  Rnic rnic{1, memory, numbers};
  CompletionQueue cq{64};
  PdId pd = rnic.alloc_pd().value();
};

TEST_F(ObserverDrops, BytesThatAreNoPacket) {
  const std::vector<std::uint8_t> frame(20, 0xff);
  deliver(frame, kPeer, kHere);
  EXPECT_THAT(drops.all,
              ElementsAre(Dropped{"drop_malformed", std::nullopt, std::nullopt, frame.size()}));
}

TEST_F(ObserverDrops, AQueuePairOrGroupThatIsNotThere) {
  deliver(packet_for(Qpn{(1u << Qpn::kIndexBits) | 5}, Opcode::rc_send_only));
  deliver(packet_for(Qpn{Qpn::kMask}, Opcode::ud_send_only), kPeer, IpAddress::v4({224, 0, 0, 9}));
  EXPECT_THAT(drops.all, ElementsAre(unclaimed("drop_no_qp"), unclaimed("drop_no_qp")));
}

TEST_F(ObserverDrops, WhatTheFirstChecksFind) {
  const QueuePair& reset = make(QpType::rc);
  const QueuePair& qp = connected();
  deliver(packet_for(reset.qpn, Opcode::rc_send_only));
  deliver(packet_for(qp.qpn, Opcode::rc_send_only), kStranger);
  deliver(packet_for(qp.qpn, Opcode::uc_send_only));
  packet::Packet other_partition = packet_for(qp.qpn, Opcode::rc_send_only);
  other_partition.bth.pkey = 0x8001;
  deliver(other_partition);
  EXPECT_THAT(drops.all, ElementsAre(of("drop_state", reset), of("drop_source", qp),
                                     of("drop_service", qp), of("drop_pkey", qp)));
}

TEST_F(ObserverDrops, ResponsesToNothing) {
  const QueuePair& qp = connected();
  deliver(packet_for(qp.qpn, Opcode::rc_acknowledge));
  deliver(packet_for(qp.qpn, Opcode::rc_read_response_only));
  EXPECT_THAT(drops.all, ElementsAre(of("drop_response", qp), of("drop_response", qp)));
}

TEST_F(ObserverDrops, DatagramsThatFindNoReceive) {
  QueuePair& qp = datagrams();
  packet::Packet wrong_key = packet_for(qp.qpn, Opcode::ud_send_only);
  wrong_key.deth.qkey = 0x2222;
  deliver(wrong_key);
  deliver(packet_for(qp.qpn, Opcode::ud_send_only));
  const std::array sges{Sge{0, 39, Key{}}};  // not even the GRH
  ASSERT_EQ(rnic.post_receive(qp, {.wr_id = 1, .sges = sges}), PostResult::posted);
  deliver(packet_for(qp.qpn, Opcode::ud_send_only));
  EXPECT_THAT(drops.all,
              ElementsAre(of("drop_qkey", qp), of("drop_no_receive", qp), of("drop_too_long", qp)));
}

TEST_F(ObserverDrops, AMarkWithTheWrongKey) {
  const QueuePair& qp = datagrams();
  packet::Packet mark = packet_for(qp.qpn, Opcode::mark);
  mark.deth.qkey = 0x2222;
  deliver(mark);
  EXPECT_THAT(drops.all, ElementsAre(of("drop_qkey", qp)));
}

TEST_F(ObserverDrops, NoMemory) {
  const QueuePair& qp = datagrams();
  const packet::Packet p = packet_for(qp.qpn, Opcode::ud_send_only);
  std::vector<std::uint8_t> frame(packet::frame_size(p.bth.opcode, 0) + packet::kIcrcSize);
  packet::encode(p, frame);
  shortage = {.active = true};
  deliver(frame, kPeer, kHere);
  shortage.active = false;
  EXPECT_THAT(drops.all, ElementsAre(of("drop_no_memory", qp)));
}

TEST_F(ObserverDrops, EthernetFrames) {
  QueuePair& qp = make(QpType::raw_packet);
  const std::vector<std::uint8_t> frame(60);
  rnic.receive_frame(qp, frame, Instant{});
  move(qp, {}, QpState::init, Attr::kPort);
  move(qp, {}, QpState::rtr, 0);
  rnic.receive_frame(qp, frame, Instant{});
  deliver(packet_for(qp.qpn, Opcode::rc_send_only));
  const Dropped early{"drop_state", qp.qpn, std::nullopt, frame.size()};
  const Dropped late{"drop_no_receive", qp.qpn, std::nullopt, frame.size()};
  EXPECT_THAT(drops.all, ElementsAre(early, late, of("drop_service", qp)));
}

}  // namespace
}  // namespace verbena::engine
