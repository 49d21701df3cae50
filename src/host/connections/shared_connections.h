#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "cm/connection_record.h"
#include "registry/registry.h"

namespace verbena::host {

/// Our connections in the table that the processes of this host share, and the orphans that we have
/// adopted there. Not thread-safe: the shard lock guards it.
class SharedConnections final : public cm::Records {
 public:
  explicit SharedConnections(registry::Registry& registry) : registry_{registry} {}

  // cm::Records
  /// If the peer is a process of this host, it will see our death, and we will see its.
  void publish(const cm::ConnectionRecord& record) override;
  void withdraw(packet::CommId local_id) override;
  [[nodiscard]] bool keeps(packet::CommId local_id) const override;
  bool end_orphan(packet::CommId local_id, packet::CommId remote_id,
                  const IpAddress& remote) override;

  /// False: another process has it, or it can't be told from another connection that is here.
  [[nodiscard]] bool adopt(const registry::RowClaim& seen, packet::CommId local_id);

 private:
  [[nodiscard]] bool is_orphan(const registry::RowClaim& row) const;
  [[nodiscard]] bool is_published(const cm::ConnectionRecord& peer) const;

  registry::Registry& registry_;
  std::unordered_map<std::uint32_t, registry::RowClaim> rows_;  // by local id
  bool was_full_ = false;
};

/// The other end of a connection between two processes of one host.
[[nodiscard]] bool are_ends_of_one(const registry::ConnectionRecord& a,
                                   const registry::ConnectionRecord& b);
[[nodiscard]] cm::ConnectionRecord cm_record(const registry::ConnectionRecord& record);

}  // namespace verbena::host
