// UC and UD against a receiver that is slower than its sender: what the socket's buffer can't hold
// is lost, and nothing brings it back.

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace verbena::sim {
namespace {

using namespace std::chrono_literals;
using engine::Access;
using engine::PostResult;
using engine::QpType;
using engine::SendKind;

constexpr std::uint32_t kMessages = 2000;
constexpr std::uint32_t kDepth = 2048;

struct Load {
  const char* name;
  QpType type;
  std::uint32_t bytes;
};

void PrintTo(const Load& load, std::ostream* out) { *out << load.name; }

/// A sends all it has, in equal parts by each of its queue pairs; B has a receive for each message,
/// a small buffer, and takes its time.
class Stream {
 public:
  explicit Stream(const Load& load, std::uint32_t pairs = 1)
      : memory_a_(load.bytes), memory_b_(load.bytes + 40) {
    Node& a = world.add_node();
    Node& b = world.add_node();
    b.buffer = {.bytes = ReceiveBuffer::kDefault, .service = 2us, .nap = 50us};
    for (std::uint32_t i = 0; i < pairs; ++i) {
      connections_.push_back(std::make_unique<Connection>(
          ConnectOptions{.depth = kDepth, .type_a = load.type, .type_b = load.type}, a, b));
      post(*connections_.back(), load, kMessages / pairs);
    }
  }

  /// Until A has sent everything and B has taken what came of it. The time that A took.
  Duration run() {
    const Instant start = world.now();
    EXPECT_TRUE(world.run_until([&] { return poll(), sent == kMessages; }, 20s)) << sent << " sent";
    const Duration took = world.now() - start;
    (void)world.run_until([&] { return poll(), received == kMessages; }, 1s);
    return took;
  }

  [[nodiscard]] Node& sender() { return *connections_.front()->a.node; }
  [[nodiscard]] Node& receiver() { return *connections_.front()->b.node; }

  World world{7, {}};
  std::size_t sent = 0;
  std::size_t received = 0;

 private:
  void post(Connection& c, const Load& load, std::uint32_t messages) {
    const unsigned access = Access::kLocalWrite;
    const auto region_a = c.a.node->expose(c.a.pd, memory_a_, access);
    const auto region_b = c.b.node->expose(c.b.pd, memory_b_, access);
    const std::array to{
        engine::Sge{region_b.iova, static_cast<std::uint32_t>(memory_b_.size()), region_b.key}};
    const std::array from{engine::Sge{region_a.iova, load.bytes, region_a.key}};
    for (std::uint32_t i = 0; i < messages; ++i) {
      EXPECT_EQ(c.b.receive({.wr_id = i, .sges = to}), PostResult::posted);
      EXPECT_EQ(c.a.send({.wr_id = i,
                          .kind = SendKind::send,
                          .signaled = true,
                          .sges = from,
                          .destination = {.flow = {.source = c.a.node->address(),
                                                   .destination = c.b.node->address(),
                                                   .source_port = 0xc000},
                                          .qpn = c.b.qp->qpn,
                                          .qkey = 0x1111}}),
                PostResult::posted);
    }
  }

  void poll() {
    for (auto& c : connections_) {
      sent += c->a.poll().size();
      received += c->b.poll().size();
    }
  }

  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::uint8_t> memory_a_;
  std::vector<std::uint8_t> memory_b_;
};

bool is(std::span<const std::uint8_t> frame, packet::Opcode op) {
  return frame[0] == static_cast<std::uint8_t>(op);
}

class Paced : public testing::TestWithParam<Load> {};

TEST_P(Paced, NothingOverflowsAReceiverLikeUs) {
  Stream s{GetParam()};
  s.run();
  EXPECT_EQ(s.received, kMessages);
  EXPECT_EQ(s.receiver().overflows(), 0u);
  EXPECT_GT(s.sender().rnic().counters().sent_marks, 1u);
}

/// The buffer is the process', not the queue pair's.
TEST_P(Paced, NothingOverflowsAReceiverOfManyQueuePairs) {
  for (const std::uint32_t pairs : {2u, 8u, 40u}) {
    Stream s{GetParam(), pairs};
    s.run();
    EXPECT_EQ(s.received, kMessages) << pairs << " pairs";
    EXPECT_EQ(s.receiver().overflows(), 0u) << pairs << " pairs";
  }
}

/// It is overrun as it always was, but the sender gets rid of its messages.
TEST_P(Paced, ForeignReceiverIsAskedTwice) {
  Stream s{GetParam()};
  s.world.filter = [](auto&, auto frame) { return !is(frame, packet::Opcode::mark); };
  EXPECT_LT(s.run(), 2 * 100ms + 10ms);
  EXPECT_LE(s.sender().rnic().counters().sent_marks, 2u);
  EXPECT_GT(s.receiver().overflows(), 0u);
}

TEST_P(Paced, LostMarkCostsTimeAndNothingElse) {
  Stream s{GetParam()};
  int marks = 0;
  s.world.filter = [&](auto&, auto frame) {
    return !is(frame, packet::Opcode::mark) || ++marks != 1;
  };
  EXPECT_GT(s.run(), 100ms);
  EXPECT_EQ(s.received, kMessages);
}

INSTANTIATE_TEST_SUITE_P(Services, Paced,
                         testing::Values(Load{"Uc", QpType::uc, 20'000},
                                         Load{"Ud", QpType::ud, 1024},
                                         Load{"SmallUd", QpType::ud, 64}),
                         [](const auto& load) { return std::string{load.param.name}; });

}  // namespace
}  // namespace verbena::sim
