#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "packet/frame_pattern.h"

namespace verbena::engine {
struct QueuePair;
}

namespace verbena::host {

/// Which frames a raw packet queue pair wants: see ibv_create_flow(3).
struct FlowRule {
  enum class Kind : std::uint8_t {
    normal,             // those that match all patterns
    all_default,        // those that no normal rule sends anywhere
    multicast_default,  // … of them, those to a group
    sniffer,            // all that the port sends and receives
  };

  Kind kind = Kind::normal;
  std::uint16_t priority = 0;  // the lowest goes first
  bool goes_on = false;        // rules of other priorities see the frame, too
  bool drops = false;          // nobody gets what matches
  std::vector<packet::HeaderPattern> patterns{};
};

/// A frame, and whether it is one that the host sends.
struct SeenFrame {
  std::span<const std::uint8_t> bytes;
  bool outgoing = false;
};

/// The rules of one interface. Frames that this host sends itself are looped back as a NIC does it:
/// those to groups, and to its own address.
class FlowRules {
 public:
  using Id = std::uint32_t;

  void add(Id id, engine::QueuePair& qp, FlowRule rule);
  /// False: there is none such.
  bool remove(Id id);
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  /// Those that get a copy, each once. `own` is the interface's address.
  void receivers(const SeenFrame& frame, const packet::Mac& own,
                 std::vector<engine::QueuePair*>& out) const;

 private:
  struct Entry {
    Id id;
    engine::QueuePair* qp;
    FlowRule rule;
  };

  /// True: a normal rule took it.
  [[nodiscard]] bool steer(const packet::FrameHeaders& headers,
                           std::vector<engine::QueuePair*>& out) const;

  std::vector<Entry> rules_;  // by priority
};

}  // namespace verbena::host
