#include "cm/connection_table.h"

#include <algorithm>
#include <utility>

namespace verbena::cm {

Connection& ConnectionTable::add(const Connection& c) {
  auto owned = std::make_unique<Connection>(c);
  Connection& added = *owned;
  by_local_id_.emplace(added.local_id.value(), &added);
  by_id_.emplace(static_cast<std::uint64_t>(added.id), std::move(owned));
  return added;
}

void ConnectionTable::remove(Connection& c) {
  deadlines_.remove(c.deadline, c.id);
  erase(by_request_, request_key(c), c);
  erase(by_remote_qpn_, qpn_key(c), c);
  by_local_id_.erase(c.local_id.value());
  by_id_.erase(static_cast<std::uint64_t>(c.id));
}

Connection* ConnectionTable::find(ConnectionId id) const {
  const auto found = by_id_.find(static_cast<std::uint64_t>(id));
  return found != by_id_.end() ? found->second.get() : nullptr;
}

Connection* ConnectionTable::find(packet::CommId local_id) const {
  const auto found = by_local_id_.find(local_id.value());
  return found != by_local_id_.end() ? found->second : nullptr;
}

Connection* ConnectionTable::find_request(const IpAddress& peer, packet::CommId remote_id,
                                          std::uint64_t guid) const {
  return find(by_request_, {peer, guid, remote_id.value()});
}

Connection* ConnectionTable::find_remote_qpn(const IpAddress& peer, Qpn qpn,
                                             std::uint64_t guid) const {
  return find(by_remote_qpn_, {peer, guid, qpn.value()});
}

void ConnectionTable::index_request(Connection& c) { by_request_.emplace(request_key(c), &c); }

void ConnectionTable::index_remote_qpn(Connection& c) { by_remote_qpn_.emplace(qpn_key(c), &c); }

void ConnectionTable::release_remote_qpn(Connection& c) { erase(by_remote_qpn_, qpn_key(c), c); }

bool ConnectionTable::any(State state) const {
  return std::any_of(by_id_.begin(), by_id_.end(),
                     [state](const auto& entry) { return entry.second->state == state; });
}

std::vector<const Connection*> ConnectionTable::all(State state) const {
  std::vector<const Connection*> out;
  for (const auto& [id, c] : by_id_) {
    if (c->state == state) out.push_back(c.get());
  }
  return out;
}

void ConnectionTable::set_deadline(Connection& c, Instant when) {
  deadlines_.remove(c.deadline, c.id);
  c.deadline = when;
  deadlines_.add(when, c.id);
}

Connection* ConnectionTable::due(Instant now) const {
  const auto id = deadlines_.due(now);
  return id ? find(*id) : nullptr;
}

Connection* ConnectionTable::find(const PeerMap& map, const PeerKey& key) {
  const auto found = map.find(key);
  return found != map.end() ? found->second : nullptr;
}

void ConnectionTable::erase(PeerMap& map, const PeerKey& key, const Connection& c) {
  const auto found = map.find(key);
  if (found != map.end() && found->second == &c) map.erase(found);
}

}  // namespace verbena::cm
