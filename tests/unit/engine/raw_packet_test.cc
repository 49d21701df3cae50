// Raw packet queue pairs: frames out of the program's memory and into it, with nobody in between.

#include "engine/raw_packet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "engine/rnic.h"
#include "tests/support/datagram.h"

namespace verbena::engine {
namespace {

using Bytes = std::vector<std::uint8_t>;
using testing::ElementsAre;

constexpr std::size_t kMtuFrame = 1514;

/// The program's memory is the test's own; frames end in `left`.
struct RawPacketTest : testing::Test,
                       memory::Dma,
                       Entropy,
                       packet::FrameSink,
                       packet::EthernetSink {
  using Left = packet::EthernetSink::Sent;

  RawPacketTest() : rnic{1, *this, *this}, cq{16}, pd{rnic.alloc_pd().value()} {
    rnic.set_ethernet(this);
    key = rnic.register_memory(pd, {address(), memory.size()}, address(), Access::kLocalWrite)
              .value()
              .key;
    qp = rnic.create_qp({.pd = pd,
                         .send_cq = &cq,
                         .receive_cq = &cq,
                         .max_send = 8,
                         .max_receive = 4,
                         .max_send_sge = 2,
                         .max_receive_sge = 2,
                         .max_inline = 64,
                         .type = QpType::raw_packet})
             .value();
  }

  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uintptr_t>(memory.data());
  }
  void bring_up() {
    for (const auto& [state, mask] : {std::pair{QpState::init, Attr::kPort},
                                      std::pair{QpState::rtr, 0u}, std::pair{QpState::rts, 0u}}) {
      QpAttributes to;
      to.state = state;
      ASSERT_TRUE(rnic.modify_qp(*qp, to, Attr::kState | mask).ok());
    }
  }
  PostResult post_send(std::uint64_t id, std::span<const Sge> sges,
                       SendKind kind = SendKind::send) {
    return rnic.post_send(*qp, {.wr_id = id, .kind = kind, .signaled = true, .sges = sges});
  }
  PostResult post_send(std::uint64_t id, std::uint32_t length) {
    const std::array sges{Sge{address(), length, key}};
    return post_send(id, sges);
  }
  void post_receive(std::uint64_t id, std::uint32_t length) {
    const std::array sges{Sge{address(), length, key}};
    ASSERT_EQ(rnic.post_receive(*qp, {.wr_id = id, .sges = sges}), PostResult::posted);
  }
  std::optional<Completion> poll() {
    std::array<Completion, 1> out;
    return cq.poll(out) == 1 ? std::optional{out[0]} : std::nullopt;
  }
  /// The id and status of everything that has completed.
  std::vector<std::pair<std::uint64_t, CompletionStatus>> completed() {
    std::vector<std::pair<std::uint64_t, CompletionStatus>> all;
    while (const auto c = poll()) all.emplace_back(c->wr_id, c->status);
    return all;
  }

  // Dma
  bool gather(std::span<const Segment> from, std::span<std::uint8_t> into) override {
    for (const Segment& s : from) {
      if (gone) return false;
      std::memcpy(into.data(), reinterpret_cast<const void*>(s.address), s.length);
      into = into.subspan(s.length);
    }
    return true;
  }
  bool scatter(std::span<const std::uint8_t> from, std::span<const Segment> into) override {
    for (const Segment& s : into) {
      if (gone) return false;
      std::memcpy(reinterpret_cast<void*>(s.address), from.data(), s.length);
      from = from.subspan(s.length);
    }
    return true;
  }
  std::optional<std::uint64_t> compare_swap(std::uint64_t, std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  std::optional<std::uint64_t> fetch_add(std::uint64_t, std::uint64_t) override {
    return std::nullopt;
  }
  bool store(std::uint64_t, std::uint64_t) override { return false; }
  // Entropy
  std::uint32_t next() override { return random = random * 1664525 + 1013904223; }
  // FrameSink: RoCE has nothing to do here.
  std::span<std::uint8_t> reserve(const packet::Flow&, Qpn, std::size_t) override { return {}; }
  void commit() override { FAIL() << "a RoCE packet"; }
  bool full() const override { return false; }
  // EthernetSink
  std::span<std::uint8_t> room(std::size_t size) override {
    return size <= frame.size() ? std::span{frame}.first(size) : std::span<std::uint8_t>{};
  }
  Left send(Qpn from, std::span<const std::uint8_t> bytes) override {
    EXPECT_EQ(from, qp->qpn);
    if (interface_full) return Left::full;
    if (bytes.size() > kMtuFrame) return Left::too_long;
    left.emplace_back(bytes.begin(), bytes.end());
    return Left::yes;
  }

  Bytes memory = Bytes(4096);
  Bytes frame = Bytes(2048);
  bool interface_full = false;
  bool gone = false;  // the program has unmapped its memory
  std::deque<Bytes> left;
  std::uint32_t random = 7;
  Rnic rnic;
  CompletionQueue cq;
  PdId pd;
  Key key{};
  QueuePair* qp = nullptr;
};

TEST_F(RawPacketTest, FramesLeaveAsTheyWereWritten) {
  bring_up();
  for (std::size_t i = 0; i < 100; ++i) memory[i] = static_cast<std::uint8_t>(i);
  const std::array sges{Sge{address(), 14, key}, Sge{address() + 50, 50, key}};
  ASSERT_EQ(post_send(1, sges), PostResult::posted);
  EXPECT_TRUE(rnic.work(*this, {}));
  Bytes expected{memory.begin(), memory.begin() + 14};
  expected.insert(expected.end(), memory.begin() + 50, memory.begin() + 100);
  EXPECT_THAT(left, ElementsAre(expected));
  const auto done = poll();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->wr_id, 1u);
  EXPECT_EQ(done->kind, CompletionKind::send);
  EXPECT_EQ(done->status, CompletionStatus::success);
}

TEST_F(RawPacketTest, OnlySendsAreOperationsOfTheirs) {
  bring_up();
  const std::array sges{Sge{address(), 60, key}};
  EXPECT_EQ(post_send(1, sges, SendKind::send_immediate), PostResult::unsupported);
  EXPECT_EQ(post_send(1, sges, SendKind::write), PostResult::unsupported);
  EXPECT_EQ(post_send(1, sges, SendKind::read), PostResult::unsupported);
}

TEST_F(RawPacketTest, FullInterfaceIsTriedAgainInOrder) {
  bring_up();
  interface_full = true;
  for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(post_send(id, 60), PostResult::posted);
  EXPECT_FALSE(rnic.work(*this, {}));
  EXPECT_TRUE(rnic.has_work());
  EXPECT_TRUE(completed().empty());
  interface_full = false;
  EXPECT_TRUE(rnic.work(*this, {}));
  EXPECT_EQ(left.size(), 3u);
  const auto ok = CompletionStatus::success;
  EXPECT_THAT(completed(), ElementsAre(std::pair{0u, ok}, std::pair{1u, ok}, std::pair{2u, ok}));
}

TEST_F(RawPacketTest, FrameThatIsTooShortOrTooLongStopsTheSendQueue) {
  for (const std::uint32_t length : {0u, 13u, 1515u, 4096u}) {
    bring_up();
    ASSERT_EQ(post_send(1, length), PostResult::posted);
    ASSERT_EQ(post_send(2, 60), PostResult::posted);
    EXPECT_TRUE(rnic.work(*this, {}));
    EXPECT_THAT(completed(), ElementsAre(std::pair{1u, CompletionStatus::local_length_error},
                                         std::pair{2u, CompletionStatus::flushed}))
        << length;
    EXPECT_EQ(qp->state.load(), QpState::sqe);
    QpAttributes to;
    ASSERT_TRUE(rnic.modify_qp(*qp, to, Attr::kState).ok());  // RESET
  }
  EXPECT_TRUE(left.empty());
}

TEST_F(RawPacketTest, MemoryThatIsGoneIsAProtectionError) {
  bring_up();
  gone = true;
  ASSERT_EQ(post_send(1, 60), PostResult::posted);
  EXPECT_TRUE(rnic.work(*this, {}));
  EXPECT_THAT(completed(), ElementsAre(std::pair{1u, CompletionStatus::local_protection_error}));
}

TEST_F(RawPacketTest, FramesArriveWholeWithoutAHeader) {
  bring_up();
  post_receive(5, 256);
  const Bytes arriving(80, 0xab);
  rnic.receive_frame(*qp, arriving, {});
  const auto done = poll();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->wr_id, 5u);
  EXPECT_EQ(done->kind, CompletionKind::receive);
  EXPECT_EQ(done->byte_count, 80u);
  EXPECT_FALSE(done->has_grh);
  EXPECT_EQ((Bytes{memory.begin(), memory.begin() + 81}), [&] {
    Bytes b = arriving;
    b.push_back(0);
    return b;
  }());
}

TEST_F(RawPacketTest, FramesWithoutAReceiveAreDroppedAndCounted) {
  const Bytes arriving(80, 0xab);
  rnic.receive_frame(*qp, arriving, {});
  EXPECT_EQ(qp->counters.drop_state, 1u);
  bring_up();
  rnic.receive_frame(*qp, arriving, {});
  EXPECT_EQ(qp->counters.drop_no_receive, 1u);
  post_receive(1, 79);
  rnic.receive_frame(*qp, arriving, {});
  EXPECT_EQ(qp->counters.drop_too_long, 1u);
  EXPECT_TRUE(completed().empty());
  // The receive is still there.
  rnic.receive_frame(*qp, std::span{arriving}.first(79), {});
  EXPECT_THAT(completed(), ElementsAre(std::pair{1u, CompletionStatus::success}));
}

TEST_F(RawPacketTest, ReceiveIntoMemoryThatIsGoneEndsInError) {
  bring_up();
  post_receive(1, 256);
  post_receive(2, 256);
  gone = true;
  rnic.receive_frame(*qp, Bytes(80), {});
  EXPECT_THAT(completed(), ElementsAre(std::pair{1u, CompletionStatus::local_protection_error},
                                       std::pair{2u, CompletionStatus::flushed}));
  EXPECT_EQ(qp->state.load(), QpState::error);
}

TEST_F(RawPacketTest, DrainingQueueSendsNothing) {
  bring_up();
  QpAttributes to;
  to.state = QpState::sqd;
  ASSERT_TRUE(rnic.modify_qp(*qp, to, Attr::kState).ok());
  ASSERT_EQ(post_send(1, 60), PostResult::posted);
  EXPECT_TRUE(rnic.work(*this, {}));
  EXPECT_TRUE(left.empty());
  to.state = QpState::rts;
  ASSERT_TRUE(rnic.modify_qp(*qp, to, Attr::kState).ok());
  EXPECT_TRUE(rnic.work(*this, {}));
  EXPECT_EQ(left.size(), 1u);
}

TEST_F(RawPacketTest, RocePacketsToTheirNumberAreDropped) {
  bring_up();
  post_receive(1, 256);
  packet::Packet p;
  p.bth.opcode = packet::Opcode::mark;  // what gets past a service that isn't acknowledged
  p.bth.destination = qp->qpn;
  Bytes bytes(packet::frame_size(p.bth.opcode, 0) + 4);
  packet::encode_headers(p, bytes);
  rnic.receive(test::delivered({.source = {}, .destination = {}, .bytes = bytes}), {});
  EXPECT_EQ(qp->counters.drop_service, 1u);
  EXPECT_TRUE(completed().empty());
}

}  // namespace
}  // namespace verbena::engine
