#pragma once

// After the death of a process: what becomes of its connections.
//
//   its peer is      then
//   this process     the connection ends here, once all is received that the dead one has sent
//   another one      that process ends it so; should it not see the death, it gets the DREQ
//   on another host  the first process that finds the connection sends the DREQ

#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "cm/connection_manager.h"
#include "host/connections/shared_connections.h"
#include "host/wires.h"
#include "registry/registry.h"

namespace verbena::host {

/// Not thread-safe: the shard lock guards it.
class OrphanSearch final : registry::Watcher {
 public:
  /// Receives and sends at an address of this host. Called for orphans of addresses that this
  /// process may not have used.
  using OpenAddress = std::function<Status(const IpAddress&)>;

  OrphanSearch(registry::Registry& registry, const Wires& wires, SharedConnections& records,
               cm::ConnectionManager& manager, OpenAddress open_address);
  ~OrphanSearch() { registry_.unwatch(*this); }
  OrphanSearch(const OrphanSearch&) = delete;
  OrphanSearch& operator=(const OrphanSearch&) = delete;

  /// `quiet`: the wires have just been looked at, and brought nothing.
  void work(Instant now, bool quiet) {
    if (now >= wanted_at_ && (quiet || now >= latest_)) search(now);
  }
  [[nodiscard]] Instant next_deadline() const { return wanted_at_; }

 private:
  /// For what the dead one has sent to be received.
  static constexpr Duration kPatience = std::chrono::milliseconds{10};
  /// Before looking again, if something is left in a ring.
  static constexpr Duration kPause = std::chrono::milliseconds{1};
  /// The peer on this host has so long to see the death before it gets a DREQ.
  static constexpr Duration kPeersTime = std::chrono::milliseconds{200};

  class LiveEnds;

  // registry::Watcher
  void members_changed() override;
  void member_died(std::uint32_t slot) override;

  void search(Instant now);
  void look_at(std::size_t index, LiveEnds& live, Instant now);
  void adopt(const registry::RowClaim& row, const registry::ConnectionRecord& record,
             LiveEnds& live, Instant now);

  registry::Registry& registry_;
  const Wires& wires_;
  SharedConnections& records_;
  cm::ConnectionManager& manager_;
  OpenAddress open_address_;
  Instant wanted_at_{};  // others may have died before we came
  Instant latest_{};
  std::string problem_;  // the last one that was logged
};

}  // namespace verbena::host
