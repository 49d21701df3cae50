#pragma once

// What a process' NIC did, port by port and queue pair by queue pair, under the kernel's names.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "engine/counters.h"
#include "host/observation/activity.h"
#include "host/queue_pair.h"
#include "packet/frame.h"

namespace verbena::host {

class Wires;

struct Statistics {
  using Value = std::pair<std::string_view, std::uint64_t>;

  struct Port {
    std::string device;
    engine::Counters counters{};  // of its queue pairs
    std::vector<Value> traffic{};
    std::uint64_t queue_pairs = 0;  // those that are there now
    std::uint64_t by_shm = 0;       // of these, connected ones by their way
    std::uint64_t by_udp = 0;

    /// The same port as another shard saw it.
    Port& operator+=(const Port& other);
  };
  struct Pair {
    std::uint64_t number = 0;  // in the order of creation
    Qpn qpn{};
    engine::QpType type{};
    std::string device;  // empty: it never had one
    IpAddress peer;      // of a connected one
    Qpn peer_qpn{};
    std::optional<packet::Course> course{};  // of a connected one, once it has a peer
    engine::Counters counters{};
    std::optional<Activity> activity{};  // of one that is there, where it was asked for
  };

  std::uint32_t pid = 0;
  std::string program;
  std::vector<Port> ports;
  std::vector<Pair> pairs;     // in the order of their creation
  std::uint64_t unlisted = 0;  // in the sums only
  std::vector<Value> wire;
  std::vector<Value> faults;  // empty: there were none
};

/// For people: what is zero everywhere is left out.
[[nodiscard]] std::string as_table(const Statistics& s);
/// For programs: everything, one object.
[[nodiscard]] std::string as_json(const Statistics& s);
/// The queue pairs only.
[[nodiscard]] std::string pairs_as_json(const std::vector<Statistics::Pair>& pairs);

/// A queue pair as it is. `expected`: the way that its requests would take.
[[nodiscard]] Statistics::Pair pair_of(const QueuePair& qp, packet::Course expected = {});

/// What queue pairs that are gone have counted.
class PairRecords {
 public:
  /// As many as anybody wants to read about.
  static constexpr std::size_t kMax = 4096;

  /// `listed`: so many are remembered one by one, the others are in the sums only.
  explicit PairRecords(std::size_t listed = kMax) : listed_{listed} {}

  /// Before a queue pair of it sends anything: a sum then needs no memory.
  void expect(const std::string& device) { sums_.try_emplace(device); }
  /// The next one that goes will be remembered.
  [[nodiscard]] bool lists_more() const { return gone_.size() < listed_; }
  void list(Statistics::Pair pair) { gone_.push_back(std::move(pair)); }
  /// Of one that is gone, listed or not.
  void add(const std::string& device, const engine::Counters& last);

  [[nodiscard]] engine::Counters sum_of(const std::string& device) const;
  /// Fills in pairs, ports with their counters, and unlisted.
  void fill(Statistics& s, const std::vector<Statistics::Pair>& live) const;

 private:
  std::size_t listed_;
  std::uint64_t count_ = 0;
  std::vector<Statistics::Pair> gone_;
  std::map<std::string, engine::Counters> sums_;  // by device
};

/// A port that nothing has passed yet.
[[nodiscard]] Statistics::Port idle_port(const std::string& device, const std::string& interface);
/// What the wire knows of a port.
void fill_from_wires(Statistics::Port& port, const std::string& interface, const Wires& wires);
/// What it knows of all of them, and the rest.
void fill_from_wires(Statistics& s, const Wires& wires);

}  // namespace verbena::host
