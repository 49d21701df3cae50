#pragma once

// A host without sockets: a shard on a wire in memory.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/completion_queue.h"
#include "host/shard.h"
#include "tests/support/memory_wire.h"

namespace verbena::test {

using engine::Access;
using engine::Attr;
using engine::QpState;
using host::CompletionQueue;
using host::Device;
using host::NicThread;
using host::Outputs;
using host::QueuePair;
using host::RawPorts;
using host::Shard;
using host::ShardParts;
using host::ShardState;
using host::Wires;

/// The thread sleeps in the kernel.
inline bool sleeps(pid_t thread) {
  if (thread == 0) return false;
  std::ifstream stat{"/proc/self/task/" + std::to_string(thread) + "/stat"};
  std::string text;
  std::getline(stat, text);
  const auto name_end = text.rfind(") ");
  return name_end != std::string::npos && text[name_end + 2] == 'S';
}

/// A shard with its NIC thread, which never starts: the test makes the rounds.
class ShardNode final : NicThread::Work {
 public:
  ShardNode(MemoryNetwork& network, std::uint8_t number,
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

  void connect(QueuePair& qp, const ShardNode& peer, const QueuePair& to) {
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

  void write(QueuePair& qp, const ShardNode& to, std::uint32_t length, std::uint64_t id) {
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

  NicThread& thread() { return thread_; }
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
  const std::unique_ptr<host::CompletionChannel> channel{
      std::move(host::CompletionChannel::create()).value()};
  CompletionQueue cq{64, channel.get(), nullptr, {}};
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

}  // namespace verbena::test
