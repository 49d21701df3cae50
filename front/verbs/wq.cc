#include "front/verbs/wq.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/data_path.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"

namespace verbena::front {

namespace {

Status check(const ibv_context* context, const ibv_wq_init_attr& attr) {
  if (const auto bits = attr.comp_mask & ~std::uint32_t{IBV_WQ_INIT_ATTR_FLAGS}; bits != 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: {:#x} is unknown", attr.comp_mask, bits)};
  }
  if ((attr.comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 && attr.create_flags != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("create_flags {:#x}: none is supported", attr.create_flags)};
  }
  if (attr.wq_type != IBV_WQT_RQ) {
    return Error{EINVAL, fmt::format("wq_type {}: must be IBV_WQT_RQ", int{attr.wq_type})};
  }
  if (attr.pd == nullptr || attr.cq == nullptr || attr.pd->context != context ||
      attr.cq->context != context) {
    return Error{EINVAL, "pd and cq must be of the same context"};
  }
  if (attr.max_wr == 0) return Error{EINVAL, "max_wr 0: it would never receive"};
  return Ok{};
}

Result<ibv_wq*> create(ibv_context* context, ibv_wq_init_attr& attr) {
  if (const Status s = check(context, attr); !s) return s.error();
  const Pd& pd = pd_of(attr.pd);
  Cq& cq = cq_of(attr.cq);
  if (!is_live(pd.nic)) return inherited("the protection domain");
  if (!is_live(cq.nic)) return inherited("the completion queue");
  auto wq = std::make_unique<Wq>();
  Listed listed{context_of(context).objects.wqs, wq.get()};
  const Result<host::QueuePair*> pair = pd.nic->create_qp({.pd = pd.id,
                                                           .receive_cq = cq.queue,
                                                           .max_receive = attr.max_wr,
                                                           .max_receive_sge = attr.max_sge,
                                                           .type = engine::QpType::raw_packet});
  if (!pair) return pair.error();
  attr.max_wr = (*pair)->rq.depth();
  attr.max_sge = (*pair)->rq.max_sge();
  wq->context = context;
  wq->pd = attr.pd;
  wq->cq = attr.cq;
  wq->wq_num = (*pair)->qpn.value();
  wq->handle = wq->wq_num;
  wq->state = IBV_WQS_RESET;
  wq->wq_type = attr.wq_type;
  wq->post_recv = post_wq_recv;
  wq->nic = pd.nic;
  wq->pair = *pair;
  listed.keep();
  const auto lock = lock_lists();
  ++cq.users;
  return wq.release();
}

/// The steps of a queue pair that lead to the state.
std::vector<engine::QpState> steps_to(ibv_wq_state from, ibv_wq_state to) {
  using engine::QpState;
  if (to == IBV_WQS_RESET) return {QpState::reset};
  if (to == IBV_WQS_ERR) return {QpState::error};
  if (from == IBV_WQS_RESET) return {QpState::init, QpState::rtr};
  return {};
}

Status modify(Wq& wq, const ibv_wq_attr& attr) {
  if (!is_live(wq.nic)) return inherited("the work queue");
  constexpr std::uint32_t kKnown = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
  if (const auto bits = attr.attr_mask & ~kKnown; bits != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("attr_mask {:#x}: {:#x} is not supported", attr.attr_mask, bits)};
  }
  if ((attr.attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0 && attr.curr_wq_state != wq.state) {
    return Error{EINVAL, fmt::format("curr_wq_state {}: it is in {}", int{attr.curr_wq_state},
                                     int{wq.state})};
  }
  if ((attr.attr_mask & IBV_WQ_ATTR_STATE) == 0) return Ok{};
  if (attr.wq_state > IBV_WQS_ERR || (wq.state == IBV_WQS_ERR && attr.wq_state == IBV_WQS_RDY)) {
    return Error{EINVAL, fmt::format("wq_state {} to {}: there is no such transition",
                                     int{wq.state}, int{attr.wq_state})};
  }
  for (const engine::QpState state : steps_to(wq.state, attr.wq_state)) {
    engine::QpAttributes to;
    to.state = state;
    const unsigned port = state == engine::QpState::init ? engine::Attr::kPort : 0;
    if (Status s = wq.nic->modify_qp(*wq.pair, context_of(wq.context).now(), to,
                                     engine::Attr::kState | port);
        !s) {
      return s;
    }
  }
  wq.state = attr.wq_state;
  return Ok{};
}

Result<ibv_rwq_ind_table*> create(ibv_context* context, const ibv_rwq_ind_table_init_attr& attr) {
  if (attr.comp_mask != 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: must be 0", attr.comp_mask)};
  }
  if (attr.log_ind_tbl_size > 31 || 1u << attr.log_ind_tbl_size > WqLimits::kMaxTableSize) {
    return Error{EINVAL, fmt::format("log_ind_tbl_size {}: the table has at most {} entries",
                                     attr.log_ind_tbl_size, WqLimits::kMaxTableSize)};
  }
  if (attr.ind_tbl == nullptr) return Error{EINVAL, "ind_tbl is NULL"};
  auto table = std::make_unique<WqTable>();
  for (std::uint32_t i = 0; i < 1u << attr.log_ind_tbl_size; ++i) {
    ibv_wq* const wq = attr.ind_tbl[i];
    if (wq == nullptr || wq->context != context) {
      return Error{EINVAL, fmt::format("entry {}: no work queue of this context", i)};
    }
    if (!is_live(wq_of(wq).nic)) return inherited("a work queue");
    table->wqs.push_back(&wq_of(wq));
  }
  table->context = context;
  const auto lock = lock_lists();
  Objects& objects = context_of(context).objects;
  if (objects.wq_tables.size() >= WqLimits::kMaxTables) {
    return Error{ENOMEM, "all indirection tables are in use"};
  }
  objects.wq_tables.insert(table.get());
  table->ind_tbl_num = ++objects.last_wq_table;
  table->ind_tbl_handle = table->ind_tbl_num;
  for (Wq* wq : table->wqs) ++wq->tables;
  return table.release();
}

Status check_hash(const ibv_rx_hash_conf& hash) {
  if (hash.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ) {
    return Error{EOPNOTSUPP, fmt::format("rx_hash_function {}: must be IBV_RX_HASH_FUNC_TOEPLITZ",
                                         hash.rx_hash_function)};
  }
  if (hash.rx_hash_key_len != packet::ReceiveHash::kKeySize || hash.rx_hash_key == nullptr) {
    return Error{EINVAL, fmt::format("rx_hash_key_len {}: must be {}", hash.rx_hash_key_len,
                                     packet::ReceiveHash::kKeySize)};
  }
  if (const auto bits = hash.rx_hash_fields_mask & ~std::uint64_t{packet::ReceiveHash::kAll};
      bits != 0) {
    return Error{EOPNOTSUPP, fmt::format("rx_hash_fields_mask {:#x}: {:#x} is not supported",
                                         hash.rx_hash_fields_mask, bits)};
  }
  return Ok{};
}

}  // namespace

Result<std::optional<host::Spread>> spread_of(const ibv_context* context,
                                              const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kBoth = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  using Found = std::optional<host::Spread>;
  if ((attr.comp_mask & kBoth) == 0) return Found{};
  if ((attr.comp_mask & kBoth) != kBoth || attr.qp_type != IBV_QPT_RAW_PACKET ||
      attr.rwq_ind_tbl == nullptr || attr.rwq_ind_tbl->context != context) {
    return Error{EINVAL,
                 "IND_TABLE and RX_HASH must be given together, for a queue pair of type "
                 "RAW_PACKET, with a table of the same context"};
  }
  if (const Status s = check_hash(attr.rx_hash_conf); !s) return s.error();
  packet::ReceiveHash::Key key;
  std::copy_n(attr.rx_hash_conf.rx_hash_key, key.size(), key.begin());
  host::Spread spread{{key, static_cast<std::uint32_t>(attr.rx_hash_conf.rx_hash_fields_mask)}, {}};
  for (const Wq* wq : table_of(attr.rwq_ind_tbl).wqs) {
    if (!is_live(wq->nic)) return inherited("the indirection table");
    spread.queues.push_back(wq->pair);
  }
  return Found{std::move(spread)};
}

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) {
  return guarded("ibv_create_wq", [&] { return create(context, *attr); });
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attr) {
  return guarded_status("ibv_modify_wq", [&] { return modify(wq_of(wq), *attr); });
}

Status destroy(Wq* wq) {
  {
    const auto lock = lock_lists();
    if (wq->tables != 0) {
      return Error{EBUSY, fmt::format("wq {:#x}: still in {} entries of indirection tables",
                                      wq->wq_num, wq->tables)};
    }
  }
  if (is_live(wq->nic)) {
    const Result<unsigned> destroyed = wq->nic->destroy_qp(wq->pair);
    if (!destroyed) return destroyed.error();
  }
  {
    const auto lock = lock_lists();
    --cq_of(wq->cq).users;
    context_of(wq->context).objects.wqs.erase(wq);
  }
  pthread_cond_destroy(&wq->cond);
  pthread_mutex_destroy(&wq->mutex);
  delete wq;
  return Ok{};
}

int destroy_wq(ibv_wq* wq) {
  return guarded_status("ibv_destroy_wq", [&] { return destroy(&wq_of(wq)); });
}

ibv_rwq_ind_table* create_wq_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr) {
  return guarded("ibv_create_rwq_ind_table", [&] { return create(context, *attr); });
}

Status destroy(WqTable* table) {
  const auto lock = lock_lists();
  if (table->users != 0) {
    return Error{EBUSY,
                 fmt::format("table {}: {} queue pairs use it", table->ind_tbl_num, table->users)};
  }
  for (Wq* wq : table->wqs) --wq->tables;
  context_of(table->context).objects.wq_tables.erase(table);
  delete table;
  return Ok{};
}

int destroy_wq_table(ibv_rwq_ind_table* table) {
  return guarded_status("ibv_destroy_rwq_ind_table", [&] { return destroy(&table_of(table)); });
}

}  // namespace verbena::front
