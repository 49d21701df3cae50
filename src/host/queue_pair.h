#pragma once

// The engine's queues, and what the host keeps beside them.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/queue_pair.h"
#include "engine/shared_receive_queue.h"
#include "host/event_channel.h"

namespace verbena::host {

/// The ports that a datagram queue pair sends from: one at each of its device's addresses.
/// Set before it may send, and then only read.
class SourcePorts {
 public:
  [[nodiscard]] bool empty() const { return ports_.empty(); }
  void add(const IpAddress& source, std::uint16_t port) { ports_.push_back({source, port}); }
  /// 0: not an address of its device, or not one that could be opened.
  [[nodiscard]] std::uint16_t at(const IpAddress& source) const {
    const auto found = std::find_if(ports_.begin(), ports_.end(),
                                    [&](const Port& p) { return p.source == source; });
    return found == ports_.end() ? std::uint16_t{0} : found->number;
  }

 private:
  struct Port {
    IpAddress source;
    std::uint16_t number;
  };
  std::vector<Port> ports_;  // few
};

/// A multicast group as seen from one interface.
struct Membership {
  IpAddress group;
  unsigned interface = 0;

  friend bool operator==(const Membership&, const Membership&) = default;
};

struct QueuePair {
  engine::QueuePair* pair = nullptr;
  EventSource events;
  SourcePorts ports;               // UD
  std::vector<Membership> groups;  // UD
};

struct SharedReceiveQueue {
  engine::SharedReceiveQueue* queue = nullptr;
  EventSource events;
};

}  // namespace verbena::host
