// What an observer sees of a conversation, and that each queue pair counts for itself.

#include "engine/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::Completion;
using engine::CompletionStatus;
using engine::QpState;
using engine::RetryCause;
using engine::SendKind;
using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

class Notes final : public engine::Observer {
 public:
  void created(const engine::QueuePair&) override { ++pairs_created; }
  void destroyed(const engine::QueuePair&) override { ++pairs_destroyed; }
  void sent(const engine::QueuePair&, const packet::Flow&, const packet::Packet& p,
            std::size_t payload, bool again) override {
    ++(again ? sent_again : sent_first);
    bytes += payload;
    opcodes[p.info().name] += 1;
  }
  void received(const engine::QueuePair&, const packet::Datagram&, const packet::Packet&) override {
    ++frames_received;
  }
  void dropped(const engine::DroppedFrame& frame) override { drops[frame.reason] += 1; }
  void retried(const engine::QueuePair&, RetryCause cause, Psn) override { causes[cause] += 1; }
  void chose_way(const engine::QueuePair&, packet::Course course) override {
    courses.push_back(course);
  }
  void answers_by(const engine::QueuePair&, packet::Way way) override { answers.push_back(way); }
  void completed(const Completion& c) override { completions.push_back(c); }
  void state_changed(const engine::QueuePair&, QpState from, QpState to) override {
    states.emplace_back(from, to);
  }

  std::uint64_t sent_first = 0;
  std::uint64_t sent_again = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes = 0;
  int pairs_created = 0;
  int pairs_destroyed = 0;
  std::map<std::string_view, int> opcodes;
  std::map<std::string_view, int> drops;
  std::map<RetryCause, int> causes;
  std::vector<packet::Course> courses;
  std::vector<packet::Way> answers;
  std::vector<Completion> completions;
  std::vector<std::pair<QpState, QpState>> states;
};

struct Observed : testing::Test {
  void connect(const Link& link) {
    world.emplace(7, link);
    c.emplace(*world, ConnectOptions{});
    const unsigned all = Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead;
    region_a = c->a.node->expose(c->a.pd, memory_a, all);
    region_b = c->b.node->expose(c->b.pd, memory_b, all);
    c->a.node->rnic().observe(&a);
    c->b.node->rnic().observe(&b);
  }

  void post(SendKind kind, std::uint32_t length, std::uint64_t id) {
    const std::array sges{engine::Sge{region_a.iova, length, region_a.key}};
    ASSERT_EQ(c->a.send({.wr_id = id,
                         .kind = kind,
                         .signaled = true,
                         .remote_address = region_b.iova,
                         .rkey = region_b.key,
                         .sges = sges}),
              engine::PostResult::posted);
  }

  void run_until_completed(std::size_t n) {
    ASSERT_TRUE(world->run_until([&] { return a.completions.size() >= n; }, 60s));
  }

  Notes a;
  Notes b;
  std::optional<World> world;
  std::optional<Connection> c;
  std::vector<std::uint8_t> memory_a = std::vector<std::uint8_t>(1u << 16);
  std::vector<std::uint8_t> memory_b = std::vector<std::uint8_t>(1u << 16);
  engine::MemoryRegion region_a;
  engine::MemoryRegion region_b;
};

TEST_F(Observed, AWriteIsSeenAtBothEnds) {
  connect({});
  post(SendKind::write, 3000, 42);
  run_until_completed(1);
  EXPECT_EQ(a.bytes, 3000u);
  EXPECT_EQ(a.sent_first, b.frames_received);
  EXPECT_EQ(a.sent_again, 0u);
  EXPECT_THAT(b.opcodes, Contains(Pair("RC ACKNOWLEDGE", 1)));
  ASSERT_EQ(a.completions.size(), 1u);
  EXPECT_EQ(a.completions[0].wr_id, 42u);
  EXPECT_TRUE(b.completions.empty());
  EXPECT_TRUE(a.causes.empty());
}

TEST_F(Observed, WhatIsSentAgainIsSaidAndCounted) {
  connect({.loss_ppm = 50'000});
  for (std::uint64_t id = 1; id <= 50; ++id) post(SendKind::write, 10'000, id);
  run_until_completed(50);
  const engine::Counters counted = c->a.qp->counters;
  EXPECT_GT(a.sent_again, 0u);
  EXPECT_EQ(counted.retransmitted_pkts, a.sent_again);
  EXPECT_EQ(counted.sent_pkts, a.sent_first + a.sent_again);
  EXPECT_EQ(counted.rcvd_pkts, a.frames_received);
  int retries = 0;
  for (const auto& [cause, times] : a.causes) retries += times;
  EXPECT_EQ(counted.completer_retry_err, static_cast<std::uint64_t>(retries));
  EXPECT_THAT(a.causes, Contains(Pair(RetryCause::sequence_nak, counted.rcvd_seq_err)));
}

TEST_F(Observed, AReceiverThatIsNotReadyIsACauseOfItsOwn) {
  connect({});
  post(SendKind::send, 100, 1);
  ASSERT_TRUE(world->run_until([&] { return a.causes[RetryCause::rnr_nak] >= 3; }, 60s));
  EXPECT_EQ(c->a.qp->counters.rcvd_rnr_err, c->b.qp->counters.send_rnr_err);
  const std::array sges{engine::Sge{region_b.iova, 100, region_b.key}};
  ASSERT_EQ(c->b.receive({.wr_id = 9, .sges = sges}), engine::PostResult::posted);
  run_until_completed(1);
  EXPECT_EQ(c->a.qp->counters.rdma_sends, 1u);
  EXPECT_EQ(c->b.qp->counters.rdma_recvs, 1u);
}

TEST_F(Observed, TheEndOfAQueuePairIsAChangeOfState) {
  connect({});
  region_b.key = Key{region_b.key.value() ^ 1};
  post(SendKind::write, 100, 1);
  run_until_completed(1);
  EXPECT_EQ(a.completions[0].status, CompletionStatus::remote_access_error);
  EXPECT_THAT(a.states, ElementsAre(Pair(QpState::rts, QpState::error)));
  EXPECT_THAT(b.states, ElementsAre(Pair(QpState::rts, QpState::error)));
}

/// Has no room for anything.
class FullSink final : public packet::FrameSink {
 public:
  std::span<std::uint8_t> reserve(const packet::Flow&, Qpn, std::size_t) override { return {}; }
  void commit() override {}
  bool full() const override { return true; }
};

TEST_F(Observed, TheRnicCountsQueuePairsThatAreGone) {
  connect({});
  post(SendKind::write, 100, 1);
  run_until_completed(1);
  engine::Rnic& rnic = c->a.node->rnic();
  const std::uint64_t sent = c->a.qp->counters.sent_pkts;
  EXPECT_EQ(rnic.counters().sent_pkts, sent);
  FullSink sink;
  engine::Counters last;
  ASSERT_TRUE(rnic.destroy_qp(*c->a.qp, sink, &last));
  EXPECT_EQ(a.pairs_destroyed, 1);
  EXPECT_EQ(last.sent_pkts, sent);
  EXPECT_EQ(rnic.counters().sent_pkts, sent);
}

}  // namespace
}  // namespace verbena::sim
