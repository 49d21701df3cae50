/* What the device claims, flag by flag: all that works, and nothing else. A flag that isn't listed
 * here must not be set. */
#include <inttypes.h>

#include "abi.h"

struct flag {
  const char* name;
  uint64_t bit;
  int claimed;
  const char* why;
};

#define FLAG(name, claimed, why) \
  { #name, (uint64_t)(name), claimed, why }

static const struct flag kDevice[] = {
    FLAG(IBV_DEVICE_RESIZE_MAX_WR, 0, "ibv_modify_qp() with IBV_QP_CAP is refused"),
    FLAG(IBV_DEVICE_BAD_PKEY_CNTR, 1, "ibv_query_port() has the count"),
    FLAG(IBV_DEVICE_BAD_QKEY_CNTR, 1, "likewise: tests/abi/datagrams.c"),
    FLAG(IBV_DEVICE_RAW_MULTI, 0, "raw packets come by flow rules, not by multicast groups"),
    FLAG(IBV_DEVICE_AUTO_PATH_MIG, 0, "attributes are kept, no path is ever changed"),
    FLAG(IBV_DEVICE_CHANGE_PHY_PORT, 0, "there is one port"),
    FLAG(IBV_DEVICE_UD_AV_PORT_ENFORCE, 1, "an address handle with another port is refused"),
    FLAG(IBV_DEVICE_CURR_QP_STATE_MOD, 1, "IBV_QP_CUR_STATE is looked at"),
    FLAG(IBV_DEVICE_SHUTDOWN_PORT, 0, "the interface isn't ours to shut down"),
    FLAG(IBV_DEVICE_INIT_TYPE, 0, "there is no subnet manager"),
    FLAG(IBV_DEVICE_PORT_ACTIVE_EVENT, 1, "ports tell when they become active"),
    FLAG(IBV_DEVICE_SYS_IMAGE_GUID, 1, "sys_image_guid is set"),
    FLAG(IBV_DEVICE_RC_RNR_NAK_GEN, 1, "a SEND that finds no receive is told so"),
    FLAG(IBV_DEVICE_SRQ_RESIZE, 0, "ibv_modify_srq() with IBV_SRQ_MAX_WR is refused"),
    FLAG(IBV_DEVICE_N_NOTIFY_CQ, 0, "the verbs have no call for it"),
    FLAG(IBV_DEVICE_MEM_WINDOW, 1, "windows of type 1"),
    FLAG(IBV_DEVICE_UD_IP_CSUM, 0, "no checksum of a payload's IP header is made or checked"),
    FLAG(IBV_DEVICE_XRC, 1, "XRC domains, shared queues and queue pairs"),
    FLAG(IBV_DEVICE_MEM_MGT_EXTENSIONS, 1, "local invalidation, SEND with invalidation"),
    FLAG(IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0, "2B is what we have: the two exclude each other"),
    FLAG(IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1, "a window is of its queue pair and its domain"),
    FLAG(IBV_DEVICE_RC_IP_CSUM, 0, "as UD_IP_CSUM"),
    FLAG(IBV_DEVICE_RAW_IP_CSUM, 0, "as UD_IP_CSUM"),
    FLAG(IBV_DEVICE_MANAGED_FLOW_STEERING, 1, "ibv_create_flow()"),
    FLAG(IBV_DEVICE_RAW_SCATTER_FCS, 0, "a packet socket shows no FCS"),
    FLAG(IBV_DEVICE_PCI_WRITE_END_PADDING, 0, "there is no PCI"),
    /* The verbs have no names for these, the kernel has. */
    {"FLUSH_GLOBAL", 1ull << 38, 1, "tests/abi/flush.c"},
    {"FLUSH_PERSISTENT", 1ull << 39, 0, "no memory that we know is persistent"},
    {"ATOMIC_WRITE", 1ull << 40, 1, "ibv_wr_atomic_write()"},
    {"CC_DMA_BOUNCE", 1ull << 41, 0, "there is no DMA"},
};

static const struct flag kPort[] = {
    FLAG(IBV_PORT_SM, 0, "there is no subnet manager"),
    FLAG(IBV_PORT_CM_SUP, 1, "the connection manager answers"),
    FLAG(IBV_PORT_IP_BASED_GIDS, 1, "GIDs are the interface's addresses"),
};

static void check_flags(const struct flag* flags, size_t count, uint64_t has) {
  for (size_t i = 0; i < count; ++i) {
    if (((has & flags[i].bit) != 0) != flags[i].claimed) {
      fprintf(stderr, "%s must%s be claimed: %s\n", flags[i].name, flags[i].claimed ? "" : " not",
              flags[i].why);
      exit(1);
    }
    has &= ~flags[i].bit;
  }
  if (has != 0) fprintf(stderr, "claimed, and not in the list: %#" PRIx64 "\n", has);
  CHECK(has == 0);
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The other features that ibv_query_device_ex() tells of. */
static void check_extended(const struct ibv_device_attr_ex* a) {
  const uint32_t datagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  const uint32_t flush_and_atomic_write = 1 << 6 | 1 << 7;
  const uint32_t reliable = datagrams | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                            IBV_ODP_SUPPORT_ATOMIC | flush_and_atomic_write;
  CHECK(a->odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
  CHECK(a->odp_caps.per_transport_caps.rc_odp_caps == reliable);
  CHECK(a->odp_caps.per_transport_caps.uc_odp_caps == (datagrams | IBV_ODP_SUPPORT_WRITE));
  CHECK(a->odp_caps.per_transport_caps.ud_odp_caps == datagrams);
  CHECK(a->xrc_odp_caps == reliable);
  CHECK(a->completion_timestamp_mask == UINT64_MAX && a->hca_core_clock == 1000000);
  CHECK(a->cq_mod_caps.max_cq_count > 0 && a->max_dm_size > 0);
  CHECK(a->rss_caps.supported_qpts == 1u << IBV_QPT_RAW_PACKET && a->max_wq_type_rq > 0);
  /* None of them is there. */
  CHECK(a->tso_caps.max_tso == 0 && a->packet_pacing_caps.qp_rate_limit_max == 0);
  CHECK(a->tm_caps.max_num_tags == 0 && a->raw_packet_caps == 0);
  CHECK(a->pci_atomic_caps.fetch_add == 0);
}

/* At the limit it works, one beyond it doesn't: refusals.c has the latter for most. */
static void check_limits(struct ibv_context* context, const struct ibv_device_attr* a) {
  struct ibv_pd* pd = ibv_alloc_pd(context);
  struct ibv_cq* cq = ibv_create_cq(context, a->max_cqe, NULL, NULL, 0);
  CHECK(pd != NULL && cq != NULL);
  struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
  init.cap = (struct ibv_qp_cap){.max_send_wr = (uint32_t)a->max_qp_wr,
                                 .max_recv_wr = (uint32_t)a->max_qp_wr,
                                 .max_send_sge = (uint32_t)a->max_sge,
                                 .max_recv_sge = (uint32_t)a->max_sge};
  struct ibv_qp* qp = ibv_create_qp(pd, &init);
  CHECK(qp != NULL);
  to_init(qp);
  struct ibv_qp_attr attr = rtr_attr(context, 1);
  attr.max_dest_rd_atomic = (uint8_t)a->max_qp_rd_atom;
  CHECK(ibv_modify_qp(qp, &attr, RTR_MASK) == 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS};
  attr.max_rd_atomic = (uint8_t)a->max_qp_init_rd_atom;
  CHECK(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);

  struct ibv_srq_init_attr shared = {
      .attr = {.max_wr = (uint32_t)a->max_srq_wr, .max_sge = (uint32_t)a->max_srq_sge}};
  struct ibv_srq* srq = ibv_create_srq(pd, &shared);
  CHECK(srq != NULL);
  CHECK(ibv_destroy_srq(srq) == 0 && ibv_destroy_qp(qp) == 0);
  CHECK(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0);

  CHECK(a->max_mr_size == UINT64_MAX && a->page_size_cap == ~0xfffull);
  CHECK(a->atomic_cap == IBV_ATOMIC_HCA && a->max_pkeys == 1 && a->phys_port_cnt == 1);
  /* Datagrams of reliable service, kinds of raw frames and FMRs are nothing that we have. */
  CHECK(a->max_ee == 0 && a->max_rdd == 0 && a->max_ee_rd_atom == 0 && a->max_raw_ipv6_qp == 0);
  CHECK(a->max_fmr == 0 && a->max_map_per_fmr == 0);
}

int main(void) {
  struct ibv_context* context = open_loopback();
  struct ibv_device_attr_ex device;
  struct ibv_device_attr classic;
  struct ibv_port_attr port;
  CHECK(ibv_query_device_ex(context, NULL, &device) == 0);
  CHECK(ibv_query_device(context, &classic) == 0);
  // Field by field it would be forty lines, and what lies between the fields is zero in both.
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
  CHECK(memcmp(&classic, &device.orig_attr, sizeof classic) == 0);
  CHECK((uint32_t)device.device_cap_flags_ex == classic.device_cap_flags);
  check_flags(kDevice, COUNT(kDevice), device.device_cap_flags_ex);
  check_extended(&device);
  check_limits(context, &classic);

  CHECK(ibv_query_port(context, 1, &port) == 0);
  check_flags(kPort, COUNT(kPort), port.port_cap_flags);
  CHECK(port.port_cap_flags2 == 0 && port.flags == IBV_QPF_GRH_REQUIRED);
  CHECK(port.max_msg_sz == 1u << 31 && port.pkey_tbl_len == 1);
  CHECK(port.lid == 0 && port.sm_lid == 0 && port.lmc == 0 && port.link_layer == 2);
  CHECK(ibv_close_device(context) == 0);
  return 0;
}
