#pragma once

// What a process' NIC did, port by port and queue pair by queue pair, under the kernel's names.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/counters.h"
#include "engine/queue_pair.h"
#include "wire/faults.h"
#include "wire/udp_wire.h"

namespace verbena::host {

struct Statistics {
  using Value = std::pair<std::string_view, std::uint64_t>;

  struct Port {
    std::string device;
    engine::Counters counters;  // of its queue pairs
    std::vector<Value> traffic;
  };
  struct Pair {
    Qpn qpn{};
    engine::QpType type{};
    std::string device;  // empty: it never had one
    IpAddress peer;      // of a connected one
    Qpn peer_qpn{};
    engine::Counters counters;
  };

  std::uint32_t pid = 0;
  std::string program;
  std::vector<Port> ports;
  std::vector<Pair> pairs;     // in the order of their creation
  std::uint64_t unlisted = 0;  // destroyed, and in the sums only
  std::vector<Value> wire;
  std::vector<Value> faults;  // empty: there were none
};

/// For people: what is zero everywhere is left out.
[[nodiscard]] std::string as_table(const Statistics& s);
/// For programs: everything, one object.
[[nodiscard]] std::string as_json(const Statistics& s);

/// Remembers queue pairs for as long as the process lives.
class PairRecords {
 public:
  /// Destroyed ones beyond this are in the sums only.
  static constexpr std::size_t kMax = 4096;

  void created(const engine::QueuePair& qp) { live_[&qp] = {created_++, {}}; }
  void on_device(const engine::QueuePair& qp, const std::string& device) {
    live_[&qp].device = device;
  }
  /// It is about to be destroyed: what is known of it, for keep() when its counters are final.
  struct Record {
    std::uint64_t number = 0;
    Statistics::Pair pair;
  };
  [[nodiscard]] std::optional<Record> take(const engine::QueuePair& qp);
  void keep(Record record, const engine::Counters& last);

  /// Fills in pairs, ports with their counters, and unlisted.
  void fill(Statistics& s) const;

 private:
  struct Live {
    std::uint64_t number = 0;
    std::string device;
  };

  std::uint64_t created_ = 0;
  std::unordered_map<const engine::QueuePair*, Live> live_;
  std::vector<Record> gone_;
  std::map<std::string, engine::Counters> gone_sums_;  // by device
  std::uint64_t unlisted_ = 0;
};

/// The rest: what the wire knows.
void fill_from_wire(Statistics& s, const wire::UdpWire& wire);

}  // namespace verbena::host
