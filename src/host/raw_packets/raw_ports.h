#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "base/result.h"
#include "engine/queue_pair.h"
#include "host/raw_packets/flow_rules.h"
#include "host/raw_packets/spread.h"
#include "packet/ethernet_sink.h"
#include "wire/packet_socket.h"

namespace verbena::host {

/// Where raw packet queue pairs meet their interfaces: each sends through a socket of its own, and
/// those that have rules on one interface share one that receives. Not thread-safe: the shard's
/// lock guards it.
class RawPorts final : public packet::EthernetSink {
 public:
  /// Of the memory that frames pass through on their way to and from the program's.
  static constexpr std::size_t kBufferBytes = std::size_t{160} << 10;
  static_assert(kBufferBytes >= wire::kMaxFrame + wire::PacketReceiver::kBufferBytes);

  /// `watch` is told of descriptors: receive() has something to do when one is readable. False: it
  /// can't.
  RawPorts(std::span<std::uint8_t> buffers, std::function<bool(int fd)> watch);

  /// With a `spread`, others get what is for it.
  void open(const engine::QueuePair& qp, wire::PacketSender sender, unsigned interface,
            std::optional<Spread> spread = {});
  /// It has no rules any more.
  void close(const engine::QueuePair& qp);

  /// From now on the queue pair gets these frames. EPERM: see wire/packet_socket.h.
  [[nodiscard]] Result<FlowRules::Id> add_rule(engine::QueuePair& qp, FlowRule rule);
  Status remove_rule(FlowRules::Id id);

  class Taker {
   public:
    virtual void frame(engine::QueuePair& qp, std::span<const std::uint8_t> bytes) = 0;

   protected:
    ~Taker() = default;
  };
  /// Takes what has arrived, a bounded amount. True: there was something.
  bool receive(Taker& taker);

  // packet::EthernetSink
  [[nodiscard]] std::span<std::uint8_t> room(std::size_t size) override;
  [[nodiscard]] Sent send(Qpn from, std::span<const std::uint8_t> frame) override;

  /// In a forked child: closes every descriptor.
  void abandon();

 private:
  struct Port {
    wire::PacketSender sender;
    unsigned interface;
    std::optional<Spread> spread{};
    int reported = 0;  // why frames were lost last
  };
  struct Listener {
    wire::PacketReceiver socket;
    FlowRules rules{};
    std::vector<std::pair<FlowRules::Id, wire::Attention>> attention{};
  };
  [[nodiscard]] Result<Listener*> listen(unsigned interface);
  void deliver(engine::QueuePair& qp, std::span<const std::uint8_t> frame, Taker& taker);

  const std::span<std::uint8_t> send_room_;
  const std::span<std::uint8_t> receive_room_;
  const std::function<bool(int)> watch_;
  std::unordered_map<std::uint32_t, Port> ports_;  // by QPN
  std::map<unsigned, Listener> listeners_;         // by interface
  std::vector<engine::QueuePair*> receivers_;      // scratch
  FlowRules::Id next_rule_ = 1;
};

}  // namespace verbena::host
