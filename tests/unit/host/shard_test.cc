// Shards on a wire in memory: the host without sockets.

#include "host/shard.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "host/completion_queue.h"
#include "tests/support/memory_wire.h"

namespace verbena::host {
namespace {

using engine::Access;
using engine::Attr;
using engine::QpState;
using test::MemoryNetwork;
using test::MemoryWire;

/// A shard with its NIC thread, which never starts: the test makes the rounds.
class Node final : NicThread::Work {
 public:
  Node(MemoryNetwork& network, std::uint8_t number,
       std::optional<settings::FaultSpec> faults = std::nullopt)
      : address{IpAddress::v4({10, 0, 0, number})}, thread_{*this} {
    constexpr std::size_t kRegistry = registry::Registry::kMessageBytes;
    const std::array sizes{MemoryWire::kRoomBytes, kRegistry, Wires::kRoomBytes,
                           RawPorts::kBufferBytes};
    std::size_t total = 0;
    for (const std::size_t size : sizes) total += size;
    auto frames = std::move(memory::FrameBuffers::create(total)).value();
    const auto bytes = frames->bytes();
    auto registry = std::move(registry::Registry::join(bytes.subspan(sizes[0], kRegistry))).value();
    auto memory_wire = std::make_unique<MemoryWire>(network, bytes.first(sizes[0]));
    wire = memory_wire.get();
    auto wires = std::make_unique<Wires>(std::move(memory_wire));
    if (faults) wires->add_faults(*faults, bytes.subspan(sizes[0] + kRegistry, sizes[2]));
    shard = std::make_unique<Shard>(
        ShardParts{.frames = std::move(frames),
                   .registry = std::move(registry),
                   .wires = std::move(wires),
                   .outputs = std::move(Outputs::open(settings::Settings{})).value(),
                   .list_devices = [] { return std::vector<Device>{}; }},
        thread_);
    shard->locked([&](ShardState& s) {
      ASSERT_TRUE(s.reachability.open_address(address, 1).ok());
      pd = s.rnic.alloc_pd().value();
      const auto base = reinterpret_cast<std::uint64_t>(memory.data());
      region = s.rnic
                   .register_memory(pd, {base, memory.size()}, base,
                                    Access::kLocalWrite | Access::kRemoteWrite)
                   .value();
    });
  }

  QueuePair& create_qp() {
    return *shard->locked([&](ShardState& s) {
      return s.rnic
          .create_qp<QueuePair>({.pd = pd,
                                 .send_cq = &cq,
                                 .receive_cq = &cq,
                                 .max_send = 64,
                                 .max_receive = 4,
                                 .max_send_sge = 1,
                                 .max_receive_sge = 1,
                                 .type = engine::QpType::rc},
                                nullptr, s.next_pair++)
          .value();
    });
  }

  void connect(QueuePair& qp, const Node& peer, const QueuePair& to) {
    shard->locked([&](ShardState& s) {
      engine::QpAttributes a{.state = QpState::init, .access = Access::kRemoteWrite};
      a.dest_qpn = to.qpn;
      a.flow = {.source = address, .destination = peer.address, .source_port = 0xC000};
      a.path_mtu = 1024;
      a.timeout = 14;
      a.retry_count = 7;
      a.rnr_retry = 7;
      ASSERT_TRUE(s.rnic.modify_qp(qp, a, kToInit).ok());
      a.state = QpState::rtr;
      ASSERT_TRUE(s.rnic.modify_qp(qp, a, kToRtr).ok());
      a.state = QpState::rts;
      ASSERT_TRUE(s.rnic.modify_qp(qp, a, kToRts).ok());
    });
  }

  void write(QueuePair& qp, const Node& to, std::uint32_t length, std::uint64_t id) {
    const std::array sges{
        engine::Sge{reinterpret_cast<std::uint64_t>(memory.data()), length, region.key}};
    ASSERT_EQ(shard->unlocked_rnic().post_send(
                  qp, {.wr_id = id,
                       .kind = engine::SendKind::write,
                       .signaled = true,
                       .remote_address = reinterpret_cast<std::uint64_t>(to.memory.data()),
                       .rkey = to.region.key,
                       .sges = sges}),
              engine::PostResult::posted);
  }

  void turn() { (void)shard->run(false); }

  /// Ids of what has completed successfully since the last call.
  std::vector<std::uint64_t> completed() {
    std::array<engine::Completion, 16> done;
    std::vector<std::uint64_t> ids;
    for (std::size_t n = cq.poll(done); n > 0; n = cq.poll(done)) {
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(done[i].status, engine::CompletionStatus::success);
        ids.push_back(done[i].wr_id);
      }
    }
    return ids;
  }

  const IpAddress address;
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(1 << 16);
  CompletionQueue cq{64, nullptr, nullptr, {}};
  MemoryWire* wire = nullptr;
  engine::PdId pd{};
  engine::MemoryRegion region;
  std::unique_ptr<Shard> shard;

 private:
  static constexpr unsigned kToInit = Attr::kState | Attr::kAccess | Attr::kPort | Attr::kPkeyIndex;
  static constexpr unsigned kToRtr = Attr::kState | Attr::kPath | Attr::kPathMtu | Attr::kDestQpn |
                                     Attr::kRqPsn | Attr::kMaxDestRdAtomic | Attr::kMinRnrTimer;
  static constexpr unsigned kToRts = Attr::kState | Attr::kTimeout | Attr::kRetryCount |
                                     Attr::kRnrRetry | Attr::kSqPsn | Attr::kMaxRdAtomic;

  // NicThread::Work
  Outcome work(bool control) override { return shard->run(control); }

  NicThread thread_;
};

class ShardTest : public testing::Test {
 protected:
  /// A queue pair of each, connected.
  static std::pair<QueuePair*, QueuePair*> pair_of(Node& a, Node& b) {
    QueuePair& from = a.create_qp();
    QueuePair& to = b.create_qp();
    a.connect(from, b, to);
    b.connect(to, a, from);
    return {&from, &to};
  }

  MemoryNetwork network_;
};

TEST_F(ShardTest, AWriteCrossesTheWireInMemory) {
  Node a{network_, 1};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  constexpr std::string_view kText = "no socket has seen this";
  std::ranges::copy(kText, a.memory.begin());
  a.write(*qp, b, 5000, 7);
  for (int i = 0; i < 10; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{7}));
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(b.memory.data()), kText.size()), kText);
  EXPECT_EQ(a.wire->counters().frames_sent, 5u);
}

TEST_F(ShardTest, AFullPathDoesNotStopTheOthers) {
  Node a{network_, 1};
  Node slow{network_, 2};
  Node quick{network_, 3};
  const auto [to_slow, slow_peer] = pair_of(a, slow);
  const auto [to_quick, quick_peer] = pair_of(a, quick);
  a.wire->limit(slow.address, 1);
  a.write(*to_slow, slow, 8192, 1);
  a.write(*to_quick, quick, 8192, 2);
  for (int i = 0; i < 10; ++i) {
    a.turn();
    quick.turn();  // `slow` takes nothing
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{2}));
  EXPECT_GT(a.wire->refusals(), 0u);

  for (int i = 0; i < 50; ++i) {
    a.turn();
    slow.turn();
  }
  EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
}

TEST_F(ShardTest, FaultsStandAroundAnyWire) {
  Node a{network_, 1, settings::FaultSpec{.drop = 1}};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  a.write(*qp, b, 100, 1);
  for (int i = 0; i < 3; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_TRUE(a.completed().empty());
  EXPECT_EQ(a.wire->counters().frames_sent, 0u);
  a.shard->inspect([](ShardState& s) {
    const auto faults = s.wires->fault_counters();
    ASSERT_TRUE(faults);
    EXPECT_GE(faults->dropped, 1u);
  });
}

TEST_F(ShardTest, DamagedFramesDontReachTheEngine) {
  Node a{network_, 1, settings::FaultSpec{.corrupt = 1}};
  Node b{network_, 2};
  const auto [qp, peer] = pair_of(a, b);
  std::ranges::fill(a.memory, std::uint8_t{1});
  a.write(*qp, b, 100, 1);
  for (int i = 0; i < 3; ++i) {
    a.turn();
    b.turn();
  }
  EXPECT_GE(b.wire->counters().icrc_errors, 1u);
  EXPECT_EQ(b.memory[0], 0);
}

// A thread posts while another one has the lock, whatever for: the post isn't forgotten.

class PostWhileLocked : public ShardTest {
 protected:
  void SetUp() override { std::tie(qp, peer) = pair_of(a, b); }
  /// As a program's thread does it.
  void post() {
    a.write(*qp, b, 100, 1);
    std::thread{[this] { a.shard->send_inline(); }}.join();
  }
  void expect_sent() {
    b.turn();
    a.turn();
    EXPECT_EQ(a.completed(), (std::vector<std::uint64_t>{1}));
  }

  Node a{network_, 1};
  Node b{network_, 2};
  QueuePair* qp = nullptr;
  QueuePair* peer = nullptr;
};

TEST_F(PostWhileLocked, BeforeTheThreadSleeps) {
  a.wire->while_locked = [this] { post(); };
  EXPECT_FALSE(a.shard->may_sleep());
  a.turn();
  expect_sent();
}

TEST_F(PostWhileLocked, WhileTheThreadLooks) {
  a.wire->while_locked = [this] { post(); };
  EXPECT_TRUE(a.shard->arrived());
  a.turn();
  expect_sent();
}

TEST_F(PostWhileLocked, DuringAnInspection) {
  a.shard->inspect([this](ShardState&) { post(); });
  expect_sent();
}

TEST_F(PostWhileLocked, DuringACall) {
  a.shard->locked([this](ShardState&) { post(); });
  expect_sent();
}

}  // namespace
}  // namespace verbena::host
