#include <endian.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "front/preload/real.h"
#include "front/verbs/context.h"
#include "front/verbs/dm.h"
#include "front/verbs/export.h"
#include "front/verbs/guarded.h"
#include "front/verbs/identity.h"
#include "front/verbs/newer_verbs.h"
#include "front/verbs/query.h"
#include "front/verbs/wq.h"
#include "host/clock.h"
#include "host/nic.h"

namespace verbena::front {

namespace {

ibv_device_attr device_attributes(const host::Device& device) {
  using engine::Limits;
  ibv_device_attr a{};
  kFirmwareVersion.copy(a.fw_ver, sizeof a.fw_ver - 1);
  a.node_guid = htobe64(device.guid);
  a.sys_image_guid = a.node_guid;
  a.max_mr_size = ~std::uint64_t{0};
  a.page_size_cap = ~std::uint64_t{0xfff};  // 4 KiB and every power of two above
  a.vendor_id = kVendorId;
  a.vendor_part_id = kVendorPartId;
  a.hw_ver = kHardwareVersion;
  a.max_qp = Limits::kMaxQueuePairs;
  a.max_raw_ethy_qp = Limits::kMaxQueuePairs;
  a.max_qp_wr = Limits::kMaxQueueDepth;
  a.device_cap_flags =
      IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_UD_AV_PORT_ENFORCE |
      IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
      IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
      IBV_DEVICE_XRC | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_MANAGED_FLOW_STEERING;
  a.max_sge = Limits::kMaxSge;
  a.max_sge_rd = Limits::kMaxSge;
  a.max_cq = 1 << 16;
  a.max_cqe = Limits::kMaxCompletions;
  a.max_mr = Limits::kMaxRegions;
  a.max_pd = Limits::kMaxDomains;
  a.max_qp_rd_atom = Limits::kMaxRdAtomic;
  a.max_res_rd_atom = static_cast<int>(Limits::kMaxRdAtomic * Limits::kMaxQueuePairs);
  a.max_qp_init_rd_atom = Limits::kMaxRdAtomic;
  a.atomic_cap = IBV_ATOMIC_HCA;
  a.max_mw = Limits::kMaxRegions;
  a.max_ah = std::numeric_limits<int>::max();  // a few bytes each, and nobody else's
  a.max_srq = Limits::kMaxSharedQueues;
  a.max_srq_wr = Limits::kMaxQueueDepth;
  a.max_srq_sge = Limits::kMaxSge;
  a.max_mcast_grp = Limits::kMaxMulticastGroups;
  a.max_mcast_qp_attach = Limits::kMaxMulticastMembers;
  a.max_total_mcast_qp_attach =
      static_cast<int>(Limits::kMaxMulticastGroups * Limits::kMaxMulticastMembers);
  a.max_pkeys = 1;
  a.local_ca_ack_delay = 15;  // 4.096 µs × 2^15: a busy machine schedules us within 134 ms
  a.phys_port_cnt = 1;
  return a;
}

constexpr std::uint32_t kUnreliableOdp =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kReliableOdp = kUnreliableOdp | IBV_ODP_SUPPORT_WRITE |
                                       IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC |
                                       newer::kOdpFlush | newer::kOdpAtomicWrite;

}  // namespace

int query_rt_values(ibv_context*, ibv_values_ex* values) {
  if ((values->comp_mask & ~std::uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) return EOPNOTSUPP;
  values->raw_clock = {};
  if (values->comp_mask != 0) {
    values->raw_clock.tv_nsec = host::now().time_since_epoch().count();
  }
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t length) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex all{};
  if (length < sizeof all.orig_attr) return EINVAL;
  all.orig_attr = device_attributes(context_of(context).device);
  all.device_cap_flags_ex =
      all.orig_attr.device_cap_flags | newer::kDeviceFlushGlobal | newer::kDeviceAtomicWrite;
  // Nothing is pinned: every copy asks the kernel for the page.
  all.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  all.odp_caps.per_transport_caps = {.rc_odp_caps = kReliableOdp,
                                     .uc_odp_caps = kUnreliableOdp | IBV_ODP_SUPPORT_WRITE,
                                     .ud_odp_caps = kUnreliableOdp};
  all.xrc_odp_caps = kReliableOdp;
  all.completion_timestamp_mask = ~std::uint64_t{0};
  all.hca_core_clock = 1'000'000;                                       // kHz: nanoseconds
  all.cq_mod_caps = {.max_cq_count = 0xffff, .max_cq_period = 0xffff};  // the period in µs
  all.max_dm_size = kMaxDeviceMemory;
  all.max_wq_type_rq = engine::Limits::kMaxQueuePairs;
  all.rss_caps = {.supported_qpts = 1u << IBV_QPT_RAW_PACKET,
                  .max_rwq_indirection_tables = WqLimits::kMaxTables,
                  .max_rwq_indirection_table_size = WqLimits::kMaxTableSize,
                  .rx_hash_fields_mask = packet::ReceiveHash::kAll,
                  .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ};
  all.phys_port_cnt_ex = 1;
  std::memset(attr, 0, length);
  std::memcpy(attr, &all, std::min(length, sizeof all));
  return 0;
}

}  // namespace verbena::front

using namespace verbena::front;

VERBENA_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  if (!is_ours(context)) {
    return real::call<"ibv_query_device", "IBVERBS_1.1">(ibv_query_device, context, attr);
  }
  *attr = device_attributes(context_of(context).device);
  return 0;
}
