#pragma once

// Receive work queues, and the tables of them that a raw packet queue pair spreads its frames over.

#include <infiniband/verbs.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "host/nic.h"

namespace verbena::front {

struct WqLimits {
  static constexpr std::uint32_t kMaxTables = 1u << 16;
  static constexpr std::uint32_t kMaxTableSize = 2048;
};

struct Wq : ibv_wq {
  host::Nic* nic = nullptr;
  host::QueuePair* pair = nullptr;  // a raw packet queue pair that sends nothing
  unsigned tables = 0;              // that it is in; under lock_lists()
};

struct WqTable : ibv_rwq_ind_table {
  std::vector<Wq*> wqs;
  unsigned users = 0;  // queue pairs; under lock_lists()
};

/// Only of one of ours.
[[nodiscard]] inline Wq& wq_of(ibv_wq* wq) { return static_cast<Wq&>(*wq); }
[[nodiscard]] inline WqTable& table_of(ibv_rwq_ind_table* table) {
  return static_cast<WqTable&>(*table);
}

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr);
int modify_wq(ibv_wq* wq, ibv_wq_attr* attr);
int destroy_wq(ibv_wq* wq);
ibv_rwq_ind_table* create_wq_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_wq_table(ibv_rwq_ind_table* table);

/// EBUSY while a table has it.
Status destroy(Wq* wq);
/// EBUSY while a queue pair has it.
Status destroy(WqTable* table);

/// What a queue pair spreads its frames over. nullopt: it has a receive queue of its own.
[[nodiscard]] Result<std::optional<host::Spread>> spread_of(const ibv_context* context,
                                                            const ibv_qp_init_attr_ex& attr);

}  // namespace verbena::front
