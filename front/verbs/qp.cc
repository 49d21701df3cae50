#include "front/verbs/qp.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/cq.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/listed.h"
#include "front/verbs/nic.h"
#include "front/verbs/pd.h"
#include "front/verbs/qp_attributes.h"
#include "front/verbs/srq.h"
#include "front/verbs/wq.h"
#include "front/verbs/xrcd.h"

namespace verbena::front {

namespace {

std::string_view name_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_RAW_PACKET:
      return "RAW_PACKET";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    case IBV_QPT_DRIVER:
      return "DRIVER";
  }
  return "unknown";
}

Status check_limit(std::string_view what, std::uint32_t asked, std::uint32_t limit) {
  if (asked <= limit) return Ok{};
  return Error{EINVAL, fmt::format("{} {} exceeds the device's {}", what, asked, limit)};
}

std::optional<engine::QpType> convert(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return engine::QpType::rc;
    case IBV_QPT_UC:
      return engine::QpType::uc;
    case IBV_QPT_UD:
      return engine::QpType::ud;
    case IBV_QPT_RAW_PACKET:
      return engine::QpType::raw_packet;
    case IBV_QPT_XRC_SEND:
      return engine::QpType::xrc_send;
    case IBV_QPT_XRC_RECV:
      return engine::QpType::xrc_receive;
    default:
      return std::nullopt;
  }
}

/// Which of the things that a queue pair may have its type has.
struct Parts {
  bool sends;
  bool receives;
};

Parts parts_of(engine::QpType type, bool spreads) {
  if (spreads) return {.sends = false, .receives = false};
  return {.sends = type != engine::QpType::xrc_receive,
          .receives = type != engine::QpType::xrc_send && type != engine::QpType::xrc_receive};
}

/// Those that the program wants to post by the ibv_wr_* family; 0: it doesn't want that.
std::uint64_t operations_of(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attr.send_ops_flags : 0;
}

Status check_mask(const ibv_qp_init_attr_ex& attr) {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
                                   IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  if (const std::uint32_t bits = attr.comp_mask & ~kKnown; bits != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("comp_mask {:#x}: {:#x} is not supported; PD, XRCD, CREATE_FLAGS, "
                             "SEND_OPS_FLAGS, IND_TABLE and RX_HASH are",
                             attr.comp_mask, bits)};
  }
  const std::uint64_t operations = send_operations(attr.qp_type);
  if (const std::uint64_t bits = operations_of(attr) & ~operations; bits != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("send_ops_flags {:#x}: queue pairs of type {} don't have "
                             "{:#x}; they have {:#x}",
                             attr.send_ops_flags, name_of(attr.qp_type), bits, operations)};
  }
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr.create_flags != 0) {
    return Error{EOPNOTSUPP,
                 fmt::format("create_flags {:#x}: none is supported", attr.create_flags)};
  }
  const std::uint32_t domain =
      attr.qp_type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
  if ((attr.comp_mask & domain) == 0) {
    return Error{EINVAL, fmt::format("comp_mask {:#x}: a queue pair of type {} needs {:#x}",
                                     attr.comp_mask, name_of(attr.qp_type), domain)};
  }
  return Ok{};
}

Status check_queues(const ibv_context* context, const ibv_qp_init_attr_ex& attr, Parts parts) {
  if ((parts.sends && attr.send_cq == nullptr) || (parts.receives && attr.recv_cq == nullptr)) {
    return Error{EINVAL, "needs a send_cq and a recv_cq"};
  }
  const bool strange = (parts.sends && attr.send_cq->context != context) ||
                       (parts.receives && attr.recv_cq->context != context) ||
                       (parts.receives && attr.srq != nullptr && attr.srq->context != context);
  if (strange) return Error{EINVAL, "a queue belongs to another context than the domain"};
  if (attr.srq != nullptr && srq_of(attr.srq).xrc_cq != nullptr) {
    return Error{EINVAL, "the shared receive queue is one for XRC, which requests name"};
  }
  return Ok{};
}

Status check_limits(const ibv_qp_cap& cap) {
  using engine::Limits;
  for (const Status& s :
       {check_limit("max_send_wr", cap.max_send_wr, Limits::kMaxQueueDepth),
        check_limit("max_recv_wr", cap.max_recv_wr, Limits::kMaxQueueDepth),
        check_limit("max_send_sge", cap.max_send_sge, Limits::kMaxSge),
        check_limit("max_recv_sge", cap.max_recv_sge, Limits::kMaxSge),
        check_limit("max_inline_data", cap.max_inline_data, Limits::kMaxInline)}) {
    if (!s) return s;
  }
  return Ok{};
}

/// Programs that ask for no inline data send some all the same (rdma_xclient): every device has
/// room for it where it keeps the gather list. The word of an ATOMIC_WRITE is inline data, too.
std::uint32_t inline_room(const ibv_qp_init_attr_ex& attr) {
  const bool words = (operations_of(attr) & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0;
  return std::max<std::uint32_t>(
      {attr.cap.max_inline_data,
       std::min<std::uint32_t>(attr.cap.max_send_sge * sizeof(ibv_sge), engine::Limits::kMaxInline),
       words ? std::uint32_t{sizeof(std::uint64_t)} : 0});
}

/// What a queue pair is made of. What its type doesn't have is nullptr.
struct Plan {
  engine::QpType type{};
  Parts parts{};
  host::Nic* nic = nullptr;
  const Pd* pd = nullptr;
  const Xrcd* xrcd = nullptr;
  Cq* send_cq = nullptr;
  Cq* receive_cq = nullptr;
  const Srq* srq = nullptr;
  std::optional<host::Spread> spread;
};

/// None of it is another process's.
Status check_live(const Plan& plan) {
  const auto dead = [](const auto* object) { return object != nullptr && !is_live(object->nic); };
  if (!is_live(plan.nic)) return inherited("the domain");
  if (dead(plan.send_cq) || dead(plan.receive_cq)) return inherited("a completion queue");
  if (dead(plan.srq)) return inherited("the shared receive queue");
  return Ok{};
}

/// One that spreads its frames has neither queue: `attr.cap` is then zeros, whatever was asked for.
Result<Plan> plan_of(const ibv_context* context, ibv_qp_init_attr_ex& attr) {
  const auto type = convert(attr.qp_type);
  if (!type) {
    return Error{EOPNOTSUPP, fmt::format("queue pair type {} ({}) is not supported: RC, UC, UD, "
                                         "XRC and RAW_PACKET are",
                                         name_of(attr.qp_type), int{attr.qp_type})};
  }
  if (const Status s = check_mask(attr); !s) return s.error();
  auto spread = spread_of(context, attr);
  if (!spread) return spread.error();
  if (spread->has_value()) attr.cap = {};
  const Parts parts = parts_of(*type, spread->has_value());
  if (const Status s = check_queues(context, attr, parts); !s) return s.error();
  if (const Status s = check_limits(attr.cap); !s) return s.error();

  Plan plan{.type = *type, .parts = parts, .spread = std::move(*spread)};
  if (*type == engine::QpType::xrc_receive) {
    plan.xrcd = &xrcd_of(attr.xrcd);
    plan.nic = plan.xrcd->nic;
  } else {
    plan.pd = &pd_of(attr.pd);
    plan.nic = plan.pd->nic;
  }
  if (parts.sends) plan.send_cq = &cq_of(attr.send_cq);
  if (parts.receives) plan.receive_cq = &cq_of(attr.recv_cq);
  if (parts.receives && attr.srq != nullptr) plan.srq = &srq_of(attr.srq);
  if (const Status s = check_live(plan); !s) return s.error();
  return plan;
}

engine::QpInit init_of(const Plan& plan, const ibv_qp_init_attr_ex& attr) {
  const auto queue_of = [](const Cq* cq) { return cq != nullptr ? cq->queue : nullptr; };
  const bool sends = plan.parts.sends;
  const bool own_receives = plan.parts.receives && plan.srq == nullptr;
  return {.pd = plan.pd != nullptr ? plan.pd->id : engine::PdId{},
          .send_cq = queue_of(plan.send_cq),
          .receive_cq = queue_of(plan.receive_cq),
          .max_send = sends ? attr.cap.max_send_wr : 0,
          .max_receive = own_receives ? attr.cap.max_recv_wr : 0,
          .max_send_sge = sends ? attr.cap.max_send_sge : 0,
          .max_receive_sge = own_receives ? attr.cap.max_recv_sge : 0,
          .max_inline = sends ? inline_room(attr) : 0,
          .signal_all = attr.sq_sig_all != 0,
          .type = plan.type,
          .srq = plan.srq != nullptr ? plan.srq->queue : nullptr,
          .xrcd = plan.xrcd != nullptr ? plan.xrcd->id : engine::XrcdId{}};
}

void fill_in(ibv_qp& classic, ibv_context* context, const Plan& plan,
             const ibv_qp_init_attr_ex& attr, Qpn qpn) {
  classic.context = context;
  classic.qp_context = attr.qp_context;
  // XRC_RECV has no use for one, but librdmacm takes the id's from here.
  classic.pd = (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr.pd : nullptr;
  classic.send_cq = to_c(plan.send_cq);
  classic.recv_cq = to_c(plan.receive_cq);
  classic.srq = plan.srq != nullptr ? attr.srq : nullptr;
  classic.qp_num = qpn.value();
  classic.handle = classic.qp_num;
  classic.state = IBV_QPS_RESET;
  classic.qp_type = attr.qp_type;
  pthread_mutex_init(&classic.mutex, nullptr);
  pthread_cond_init(&classic.cond, nullptr);
}

/// What was made is told in `attr.cap`.
Result<ibv_qp*> create(ibv_context* context, ibv_qp_init_attr_ex& attr) {
  Result<Plan> checked = plan_of(context, attr);
  if (!checked) return checked.error();
  Plan& plan = *checked;

  auto qp = std::make_unique<Qp>();
  if (const std::uint64_t operations = operations_of(attr); operations != 0) {
    qp->batch = std::make_unique<SendBatch>(operations, inline_room(attr));
    set_send_functions(*qp);
  }
  const bool spreads = plan.spread.has_value();
  Context& device = context_of(context);
  Listed listed{device.objects.qps, qp.get()};
  qp->listener = device.events.get();
  const engine::QpInit init = init_of(plan, attr);
  const Result<host::QueuePair*> pair =
      plan.type == engine::QpType::raw_packet
          ? plan.nic->create_raw_qp(init, device.now(), qp.get(), std::move(plan.spread))
          : plan.nic->create_qp(init, qp.get());
  if (!pair) return pair.error();
  const engine::SendQueue& sq = (*pair)->sq;
  const engine::ReceiveQueue& rq = (*pair)->rq;
  attr.cap = {.max_send_wr = sq.depth(),
              .max_recv_wr = rq.depth(),
              .max_send_sge = sq.max_sge(),
              .max_recv_sge = rq.max_sge(),
              .max_inline_data = sq.max_inline()};
  fill_in(qp->qp_base, context, plan, attr, (*pair)->qpn);
  qp->nic = plan.nic;
  qp->pair = *pair;
  qp->cap = attr.cap;
  qp->signal_all = init.signal_all;
  listed.keep();
  const auto lock = lock_lists();
  if (plan.send_cq != nullptr) ++plan.send_cq->users;
  if (plan.receive_cq != nullptr) ++plan.receive_cq->users;
  if (spreads) {
    qp->table = &table_of(attr.rwq_ind_tbl);
    ++qp->table->users;
  }
  return &qp.release()->qp_base;
}

/// The classic struct is the beginning of the extended one.
Result<ibv_qp*> create(ibv_pd* pd, ibv_qp_init_attr& attr) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = attr.qp_context;
  extended.send_cq = attr.send_cq;
  extended.recv_cq = attr.recv_cq;
  extended.srq = attr.srq;
  extended.cap = attr.cap;
  extended.qp_type = attr.qp_type;
  extended.sq_sig_all = attr.sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  Result<ibv_qp*> qp = create(pd->context, extended);
  if (qp) attr.cap = extended.cap;
  return qp;
}

/// Programs set the attributes of both halves on each half of an XRC connection. The kernel
/// overlooks those that a half doesn't have.
unsigned relevant(ibv_qp_type type, unsigned mask) {
  switch (type) {
    case IBV_QPT_XRC_SEND:
      return mask & ~unsigned{IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER};
    case IBV_QPT_XRC_RECV:
      return mask & ~unsigned{IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY};
    default:
      return mask;
  }
}

Status modify(Qp& qp, const ibv_qp_attr& attr, unsigned mask) {
  if (!is_live(qp.nic)) return inherited("the queue pair");
  mask = relevant(qp.qp_base.qp_type, mask);
  const Context& context = context_of(qp.qp_base.context);
  const Result<engine::QpAttributes> to = attributes_from_c(context, attr, mask);
  if (!to) return to.error();
  if (Status s = qp.nic->modify_qp(*qp.pair, context.now(), *to, mask); !s) return s;
  if ((mask & IBV_QP_STATE) != 0) qp.qp_base.state = attr.qp_state;
  return Ok{};
}

}  // namespace

Status of_qp(std::uint32_t qpn, Status status) {
  if (status || status.error().message.starts_with("qp ")) return status;
  return Error{status.error().code, fmt::format("qp {:#x}: {}", qpn, status.error().message)};
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  return guarded("ibv_create_qp_ex", [&] { return create(context, *attr); });
}

Status destroy(Qp* qp, Unacked unacked) {
  ibv_qp& classic = qp->qp_base;
  if (is_live(qp->nic)) {
    const Result<unsigned> taken = qp->nic->destroy_qp(qp->pair);
    if (!taken) return taken.error();
    if (unacked == Unacked::awaited) {
      await_acknowledgements(classic, classic.events_completed, *taken);
    }
  }
  {
    const auto lock = lock_lists();
    if (classic.send_cq != nullptr) --cq_of(classic.send_cq).users;
    if (classic.recv_cq != nullptr) --cq_of(classic.recv_cq).users;
    if (qp->table != nullptr) --qp->table->users;
    context_of(classic.context).objects.qps.erase(qp);
  }
  pthread_cond_destroy(&classic.cond);
  pthread_mutex_destroy(&classic.mutex);
  delete qp;
  return Ok{};
}

}  // namespace verbena::front

using namespace verbena;
using namespace verbena::front;

VERBENA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (!is_ours(pd)) return real::call<"ibv_create_qp", "IBVERBS_1.1">(ibv_create_qp, pd, attr);
  return guarded("ibv_create_qp", [&] { return create(pd, *attr); });
}

VERBENA_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask) {
  if (!is_ours(qp)) {
    return real::call<"ibv_modify_qp", "IBVERBS_1.1">(ibv_modify_qp, qp, attr, attr_mask);
  }
  return guarded_status("ibv_modify_qp", [&] {
    return of_qp(qp->qp_num, modify(qp_of(qp), *attr, static_cast<unsigned>(attr_mask)));
  });
}

VERBENA_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int attr_mask,
                                ibv_qp_init_attr* init_attr) {
  if (!is_ours(qp)) {
    return real::call<"ibv_query_qp", "IBVERBS_1.1">(ibv_query_qp, qp, attr, attr_mask, init_attr);
  }
  return guarded_status("ibv_query_qp", [&]() -> Status {
    Qp& ours = qp_of(qp);
    if (!is_live(ours.nic)) return inherited("the queue pair");
    // The mask is a hint: everything is cheap to tell.
    *attr = attributes_to_c(ours.nic->query_qp(*ours.pair), ours.cap);
    qp->state = attr->qp_state;
    *init_attr = {.qp_context = qp->qp_context,
                  .send_cq = qp->send_cq,
                  .recv_cq = qp->recv_cq,
                  .srq = qp->srq,
                  .cap = ours.cap,
                  .qp_type = qp->qp_type,
                  .sq_sig_all = ours.signal_all ? 1 : 0};
    return Ok{};
  });
}

VERBENA_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  // qperf's server does, at the end of each test, and its client waits for its good-bye.
  if (qp == nullptr) return EINVAL;
  if (!is_ours(qp)) return real::call<"ibv_destroy_qp", "IBVERBS_1.1">(ibv_destroy_qp, qp);
  return guarded_status("ibv_destroy_qp", [&, qpn = qp->qp_num] {
    return of_qp(qpn, destroy(&qp_of(qp), Unacked::awaited));
  });
}
