// The functions that verbs inlined into a program reach through its context.

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>

#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/data_path.h"
#include "front/verbs/dm.h"
#include "front/verbs/flow.h"
#include "front/verbs/mr.h"
#include "front/verbs/mw.h"
#include "front/verbs/parent_domain.h"
#include "front/verbs/qp.h"
#include "front/verbs/query.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"
#include "host/log.h"

namespace verbena::front {

namespace {

/// Stands where the real libibverbs looks for functions of a provider. It gets here only from
/// a verb that we should have taken over ourselves. NULL is the failure of most of those that
/// make something; for the others there is no value that fits all.
extern "C" void* missing_verb() {
  Dl_info caller{};
  const bool known = dladdr(__builtin_return_address(0), &caller) != 0;
  host::log(host::LogLevel::error,
            "a verb that verbena doesn't implement was called on its device (near {} in {}); "
            "please report it",
            known && caller.dli_sname != nullptr ? caller.dli_sname : "?",
            known && caller.dli_fname != nullptr ? caller.dli_fname : "?");
  errno = EOPNOTSUPP;
  return nullptr;
}

using AnyFunction = void* (*)();

/// The private part of a context differs between releases: flags, then functions. Read as
/// either, these do no harm.
const std::array<AnyFunction, 256>& missing_verbs() {
  static const auto table = [] {
    std::array<AnyFunction, 256> t{};
    t.fill(missing_verb);
    return t;
  }();
  return table;
}

}  // namespace

void set_operations(verbs_context& context) {
  using Table = std::array<AnyFunction, sizeof(ibv_context_ops) / sizeof(AnyFunction)>;
  Table table;
  table.fill(missing_verb);
  ibv_context_ops& ops = context.context.ops;
  ops = std::bit_cast<ibv_context_ops>(table);

  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;

  // Whatever stays NULL in the extended part is EOPNOTSUPP to the program.
  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.advise_mr = advise_mr;
  context.alloc_null_mr = alloc_null_mr;
  context.alloc_dm = alloc_dm;
  context.free_dm = free_dm;
  context.reg_dm_mr = reg_dm_mr;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.modify_cq = modify_cq;
  context.create_cq_ex = create_cq_ex;
  context.create_qp_ex = create_qp_ex;
  context.ibv_create_flow = create_flow;
  context.ibv_destroy_flow = destroy_flow;
  context.create_wq = create_wq;
  context.modify_wq = modify_wq;
  context.destroy_wq = destroy_wq;
  context.create_rwq_ind_table = create_wq_table;
  context.destroy_rwq_ind_table = destroy_wq_table;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.open_qp = open_qp;
  context.priv =
      reinterpret_cast<verbs_ex_private*>(const_cast<AnyFunction*>(missing_verbs().data()));
}

bool is_ours(const ibv_context* context) { return context->ops.poll_cq == poll_cq; }

}  // namespace verbena::front
