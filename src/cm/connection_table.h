#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/ip_address.h"
#include "base/numbers.h"
#include "base/time.h"
#include "cm/connection.h"
#include "cm/deadlines.h"
#include "packet/comm_id.h"

namespace verbena::cm {

/// Owns the connections, finds them by each of their names and by their deadlines.
///
/// A peer is its address and what it says of itself. The address is part of it although the
/// numbers alone should do (IBA 12.9.8.3.1): else a stranger who claims another host's GUID could
/// have that host's connections taken for stale and torn down.
class ConnectionTable {
 public:
  explicit ConnectionTable(std::size_t capacity) : capacity_{capacity} {}

  [[nodiscard]] bool full() const { return by_id_.size() >= capacity_; }
  /// `c` has its id and its local id.
  Connection& add(const Connection& c);
  void remove(Connection& c);

  [[nodiscard]] Connection* find(ConnectionId id) const;
  [[nodiscard]] Connection* find(packet::CommId local_id) const;
  /// The one that a peer's REQ began.
  [[nodiscard]] Connection* find_request(const IpAddress& peer, packet::CommId remote_id,
                                         std::uint64_t guid) const;
  /// The one that uses a peer's queue pair now.
  [[nodiscard]] Connection* find_remote_qpn(const IpAddress& peer, Qpn qpn,
                                            std::uint64_t guid) const;

  // From now on it is found so. Its route, remote id, peer QPN and GUID don't change any more.
  void index_request(Connection& c);
  void index_remote_qpn(Connection& c);
  /// Its queue pair is free for another connection.
  void release_remote_qpn(Connection& c);

  void set_deadline(Connection& c, Instant when);
  [[nodiscard]] Instant next_deadline() const { return deadlines_.next(); }
  [[nodiscard]] Connection* due(Instant now) const;

  [[nodiscard]] std::size_t size() const { return by_id_.size(); }
  /// Looks at all of them.
  [[nodiscard]] bool any(State state) const;
  [[nodiscard]] std::vector<const Connection*> all(State state) const;

 private:
  struct PeerKey {
    IpAddress address{};
    std::uint64_t guid = 0;
    std::uint32_t number = 0;
    friend constexpr auto operator<=>(const PeerKey&, const PeerKey&) = default;
  };
  using PeerMap = std::map<PeerKey, Connection*>;

  static PeerKey request_key(const Connection& c) {
    return {c.route.remote, c.remote_guid, c.remote_id.value()};
  }
  static PeerKey qpn_key(const Connection& c) {
    return {c.route.remote, c.remote_guid, c.peer.qpn.value()};
  }
  [[nodiscard]] static Connection* find(const PeerMap& map, const PeerKey& key);
  static void erase(PeerMap& map, const PeerKey& key, const Connection& c);

  std::size_t capacity_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Connection>> by_id_;
  std::unordered_map<std::uint32_t, Connection*> by_local_id_;
  PeerMap by_request_;
  PeerMap by_remote_qpn_;
  Deadlines<ConnectionId> deadlines_;
};

}  // namespace verbena::cm
