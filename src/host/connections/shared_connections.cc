#include "host/connections/shared_connections.h"

#include "host/log.h"

namespace verbena::host {

using registry::ConnectionMemory;
using registry::ids_of;
using registry::RowClaim;
using registry::RowState;

namespace {

registry::ConnectionRecord registry_record(const cm::ConnectionRecord& r) {
  return {.local_id = r.local_id.value(),
          .remote_id = r.remote_id.value(),
          .local = r.route.local,
          .remote = r.route.remote,
          .remote_gsi = r.route.remote_qp,
          .remote_qpn = r.remote_qpn,
          .interval = r.response_interval,
          .retries = r.max_retries};
}

}  // namespace

cm::ConnectionRecord cm_record(const registry::ConnectionRecord& r) {
  return {.local_id = packet::CommId{r.local_id},
          .remote_id = packet::CommId{r.remote_id},
          .route = {.local = r.local, .remote = r.remote, .remote_qp = r.remote_gsi},
          .remote_qpn = r.remote_qpn,
          .response_interval = r.interval,
          .max_retries = r.retries};
}

bool are_ends_of_one(const registry::ConnectionRecord& a, const registry::ConnectionRecord& b) {
  return a.local_id == b.remote_id && a.remote_id == b.local_id && a.local == b.remote &&
         a.remote == b.local;
}

void SharedConnections::publish(const cm::ConnectionRecord& record) {
  const auto row = registry_.table().connections().add(registry_.slot(), registry_record(record));
  if (row) {
    rows_.insert_or_assign(record.local_id.value(), *row);
  } else if (!was_full_) {
    was_full_ = true;
    log(LogLevel::warn,
        "the processes of this host have {} rdma_cm connections, which is all that they share; if "
        "this process is killed, the peers of its further ones aren't told",
        ConnectionMemory::kRows);
  }
  const std::uint32_t peer = record.remote_id.slot();
  if (peer != registry_.slot() && registry_.held(peer) && !registry_.has_met(peer) &&
      is_published(record)) {
    registry_.meet(peer);
  }
}

/// The peer's slot number says little: a peer on another host may have the same one.
bool SharedConnections::is_published(const cm::ConnectionRecord& peer) const {
  const ConnectionMemory& memory = registry_.table().connections();
  const auto wanted = ids_of(peer.remote_id.value(), peer.local_id.value());
  const auto own = registry_record(peer);
  for (std::size_t i = 0; i < memory.bound(); ++i) {
    if (memory.ids(i) != wanted) continue;
    const auto row = memory.look(i);
    const auto record = row ? memory.read(*row) : std::nullopt;
    if (record && are_ends_of_one(*record, own)) return true;
  }
  return false;
}

void SharedConnections::withdraw(packet::CommId local_id) {
  const auto found = rows_.find(local_id.value());
  if (found == rows_.end()) return;
  registry_.table().connections().remove(found->second);
  rows_.erase(found);
}

bool SharedConnections::keeps(packet::CommId local_id) const {
  const auto found = rows_.find(local_id.value());
  return found != rows_.end() && registry_.table().connections().unchanged(found->second);
}

bool SharedConnections::is_orphan(const RowClaim& row) const {
  return row.state() == RowState::adopted || !registry_.held(row.slot());
}

bool SharedConnections::end_orphan(packet::CommId local_id, packet::CommId remote_id,
                                   const IpAddress& remote) {
  ConnectionMemory& memory = registry_.table().connections();
  const auto wanted = ids_of(local_id.value(), remote_id.value());
  for (std::size_t i = 0; i < memory.bound(); ++i) {
    if (memory.ids(i) != wanted) continue;
    const auto row = memory.look(i);
    if (!row || !is_orphan(*row)) continue;
    const auto record = memory.read(*row);
    if (record && record->remote == remote) return memory.remove(*row);
  }
  return false;
}

bool SharedConnections::adopt(const RowClaim& seen, packet::CommId local_id) {
  ConnectionMemory& memory = registry_.table().connections();
  if (rows_.contains(local_id.value())) {
    memory.remove(seen);
    return false;
  }
  const auto row = memory.adopt(seen, registry_.slot());
  if (row) rows_.emplace(local_id.value(), *row);
  return row.has_value();
}

}  // namespace verbena::host
