#pragma once

// The engine's queues, with what the host keeps of each. The host's RNIC has no others.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/event.h"
#include "engine/queue_pair.h"
#include "engine/shared_receive_queue.h"
#include "host/completion_queue.h"
#include "host/events/event_channel.h"

namespace verbena::host {

/// The ports that a datagram queue pair sends from: one at each of its device's addresses. They are
/// added with the shard's lock and read without it, also while it sends: its device may get an
/// address. So an entry is complete before it is counted, and stays where it is.
class SourcePorts {
 public:
  static constexpr std::size_t kMost = 64;

  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }
  /// False: no room.
  bool add(const IpAddress& source, std::uint16_t port) {
    const auto count = count_.load(std::memory_order_relaxed);
    if (count == kMost) return false;
    ports_[count] = {source, port};
    count_.store(count + 1, std::memory_order_release);
    return true;
  }
  /// 0: not an address of its device, or not one that could be opened.
  [[nodiscard]] std::uint16_t at(const IpAddress& source) const {
    const auto known = std::span{ports_}.first(count_.load(std::memory_order_acquire));
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const Port& p) { return p.source == source; });
    return found == known.end() ? std::uint16_t{0} : found->number;
  }

 private:
  struct Port {
    IpAddress source{};
    std::uint16_t number = 0;
  };
  std::array<Port, kMost> ports_{};
  std::atomic<std::size_t> count_{0};
};

/// A multicast group as seen from one interface.
struct Membership {
  IpAddress group;
  unsigned interface = 0;

  friend bool operator==(const Membership&, const Membership&) = default;
};

struct QueuePair : engine::QueuePair {
  QueuePair(Qpn assigned, const engine::QpInit& init, EventSource* source, std::uint64_t nth)
      : engine::QueuePair{assigned, init}, events{source}, number{nth} {}

  EventSource* const events;             // nullptr: nobody wants to hear of it
  const std::uint64_t number;            // in the order of creation
  std::string device;                    // from INIT on
  std::unique_ptr<SourcePorts> ports{};  // UD, from RTR on, at the device's addresses
  std::vector<Membership> groups;        // UD
  unsigned rules = 0;                    // raw packets: flow rules that lead to it
  std::atomic<std::uint64_t> kicked{0};  // requests posted when it was told to send last
};

struct SharedReceiveQueue : engine::SharedReceiveQueue {
  SharedReceiveQueue(std::uint32_t srqn, const engine::SrqInit& init, EventSource* source)
      : engine::SharedReceiveQueue{srqn, init}, events{source} {}

  EventSource* const events;  // nullptr: nobody wants to hear of it
};

[[nodiscard]] inline const QueuePair& host_of(const engine::QueuePair& qp) {
  return static_cast<const QueuePair&>(qp);
}

/// Whom an event of the engine concerns. nullptr: nobody.
[[nodiscard]] inline EventSource* source_of(const engine::Event& e) {
  if (e.qp != nullptr) return host_of(*e.qp).events;
  if (e.srq != nullptr) return static_cast<const SharedReceiveQueue&>(*e.srq).events;
  return host_of(*e.cq).events;
}

}  // namespace verbena::host
