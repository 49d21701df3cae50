#include "host/connections/orphan_search.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "host/clock.h"
#include "host/log.h"

namespace verbena::host {

using registry::ConnectionMemory;
using registry::ids_of;
using registry::RowClaim;
using registry::RowState;

/// Connections of processes that live, looked up once for all orphans of a search.
class OrphanSearch::LiveEnds {
 public:
  explicit LiveEnds(registry::Registry& registry) : registry_{registry} {}

  [[nodiscard]] bool have_peer(const registry::ConnectionRecord& orphan) {
    if (!ends_) find_all();
    const auto found = ends_->find(ids_of(orphan.remote_id, orphan.local_id));
    return found != ends_->end() && are_ends_of_one(found->second, orphan);
  }

 private:
  void find_all() {
    const ConnectionMemory& memory = registry_.table().connections();
    ends_.emplace();
    for (std::size_t i = 0; i < memory.bound(); ++i) {
      const auto row = memory.look(i);
      if (!row || row->state() != RowState::complete || !registry_.held(row->slot())) continue;
      if (const auto record = memory.read(*row)) {
        ends_->emplace(ids_of(record->local_id, record->remote_id), *record);
      }
    }
  }

  registry::Registry& registry_;
  std::optional<std::unordered_map<std::uint64_t, registry::ConnectionRecord>> ends_;
};

OrphanSearch::OrphanSearch(registry::Registry& registry, const Wires& wires,
                           SharedConnections& records, cm::ConnectionManager& manager,
                           OpenAddress open_address)
    : registry_{registry},
      wires_{wires},
      records_{records},
      manager_{manager},
      open_address_{std::move(open_address)} {
  registry_.watch(*this);
}

void OrphanSearch::members_changed() {
  if (wanted_at_ != kNever) return;
  wanted_at_ = host::now();
  latest_ = wanted_at_ + kPatience;
}

void OrphanSearch::member_died(std::uint32_t) { members_changed(); }

void OrphanSearch::search(Instant now) {
  wanted_at_ = kNever;
  LiveEnds live{registry_};
  const ConnectionMemory& memory = registry_.table().connections();
  for (std::size_t i = 0; i < memory.bound(); ++i) look_at(i, live, now);
}

void OrphanSearch::look_at(std::size_t index, LiveEnds& live, Instant now) {
  ConnectionMemory& memory = registry_.table().connections();
  const auto row = memory.look(index);
  if (!row || row->slot() == registry_.slot()) return;
  const bool dead = !registry_.held(row->slot());
  if (!dead && row->state() != RowState::adopted) return;
  const auto record = memory.read(*row);
  if (!record) {
    if (dead) memory.remove(*row);
    return;
  }
  const cm::ConnectionRecord orphan = cm_record(*record);
  if (manager_.is_peer(orphan)) {
    if (!wires_.drained(orphan.local_id.slot())) {
      wanted_at_ = now + kPause;
    } else if (memory.remove(*row)) {
      manager_.peer_died(orphan, now);
    }
  } else if (dead) {
    adopt(*row, *record, live, now);
  }
}

void OrphanSearch::adopt(const RowClaim& row, const registry::ConnectionRecord& record,
                         LiveEnds& live, Instant now) {
  const cm::ConnectionRecord orphan = cm_record(record);
  const bool peer_is_here = live.have_peer(record);
  if (!records_.adopt(row, orphan.local_id)) return;
  if (const Status opened = open_address_(record.local); !opened) {
    if (opened.error().message != problem_) {
      problem_ = opened.error().message;
      log(LogLevel::warn, "a killed process had connections at {}, whose peers aren't told: {}",
          record.local.text(), problem_);
    }
    records_.withdraw(orphan.local_id);
    return;
  }
  manager_.adopt(orphan, peer_is_here ? now + kPeersTime : now);
}

}  // namespace verbena::host
