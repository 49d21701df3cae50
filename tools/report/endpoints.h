#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/model.h"
#include "tools/report/observation.h"

namespace verbena::report {

/// A queue pair as far as it is known: traced by its process, or seen in packets only.
struct Endpoint {
  std::uint32_t qpn = 0;           // 0: unknown
  std::uint32_t observer = kNone;  // kNone: not traced
  std::string_view address{};
  std::string_view type{};
  std::string_view device{};
  std::uint32_t mtu = 0;
  // What it was told, if it is connected:
  std::uint32_t peer_qpn = 0;
  std::string_view peer_address{};
  std::uint32_t peer = kNone;           // place of the other end, once that is known
  std::int64_t first_request = kNever;  // when it first asked for something
  bool shared = false;                  // a shared receive queue: `qpn` is its number
};

/// All queue pairs, by the process that traced them or by address and number.
class Endpoints {
 public:
  [[nodiscard]] Endpoint& at(std::uint32_t place) { return all_[place]; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(all_.size()); }

  /// The one of this process; made if it isn't there.
  std::uint32_t traced(std::uint32_t observer, std::uint32_t qpn);
  /// The shared receive queue of this process; made if it isn't there.
  std::uint32_t shared(std::uint32_t observer, std::uint32_t number);
  /// The one that has this number at this address; made if it isn't there. An empty address is any.
  std::uint32_t addressed(std::string_view address, std::uint32_t qpn);
  void name(std::uint32_t place, std::string_view address);
  void pair(std::uint32_t a, std::uint32_t b);
  /// The traced queue pair that was told of `place` as its peer, or one that is known by its
  /// address only.
  std::uint32_t peer_of_connected(std::uint32_t place);

 private:
  std::vector<Endpoint> all_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> traced_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> shared_;
  std::map<std::pair<std::string_view, std::uint32_t>, std::uint32_t> addressed_;
  std::multimap<std::uint32_t, std::uint32_t> by_number_;
};

}  // namespace verbena::report
