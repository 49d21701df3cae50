#pragma once

// What rdma-core added to the verbs after release 44, the oldest that we build with. A library that
// was built with old headers must serve programs that were built with new ones, so what they know
// is declared here. Where the headers have it too, both say the same: functions and structs are
// declared twice, and has_layout_of() compares.

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// NOLINTBEGIN(readability-redundant-declaration)
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

extern "C" {
// IBVERBS_1.15
ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attr);
ibv_mr* ibv_reg_mr_ex(ibv_pd* pd, ibv_mr_init_attr* attr);
// IBVERBS_1.16
int ibv_dm_export_dmabuf_fd(ibv_dm* dm);
int ibv_query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed);
// IBVERBS_1.17
void* ibv_alloc_buf(ibv_pd* pd, std::size_t size, ibv_buf** buf);
void ibv_free_buf(ibv_buf* buf);
ibv_mr* ibv_reg_buf_mr(ibv_pd* pd, ibv_buf* buf, void* addr, std::size_t length, int access);
// IBVERBS_1.18
int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps, std::size_t size);
ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context, ibv_comp_cntr_init_attr* attr);
int ibv_export_buf_dmabuf_fd(ibv_buf* buf);
int ibv_qp_attach_comp_cntr(ibv_qp* qp, ibv_comp_cntr* counter, ibv_qp_attach_comp_cntr_attr* attr);
}
// NOLINTEND(readability-redundant-declaration)

namespace verbena::front::newer {

/// Whether a struct of the headers, if they have it, is as long as ours.
template <typename Theirs, typename Ours>
constexpr bool has_layout_of() {
  if constexpr (requires { sizeof(Theirs); }) {
    return sizeof(Theirs) == sizeof(Ours);
  } else {
    return true;
  }
}

/// ibv_mr_init_attr. A program may know a shorter one: only what `comp_mask` names is there.
struct MrInit {
  enum Mask : std::uint64_t {
    kIova = 1 << 0,
    kAddress = 1 << 1,
    kFd = 1 << 2,
    kFdOffset = 1 << 3,
    kDmaHandle = 1 << 4,
    kBuffer = 1 << 5,
  };

  std::size_t length;
  int access;
  std::uint64_t comp_mask;
  std::uint64_t iova;
  void* address;
  int fd;
  std::uint64_t fd_offset;
  ibv_dmah* dma_handle;
  ibv_buf* buffer;
};
static_assert(has_layout_of<ibv_mr_init_attr, MrInit>());

// FLUSH.
inline constexpr unsigned kAccessFlushGlobal = 1u << 8;          // IBV_ACCESS_FLUSH_GLOBAL
inline constexpr unsigned kAccessFlushPersistent = 1u << 9;      // IBV_ACCESS_FLUSH_PERSISTENT
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11;        // IBV_QP_EX_WITH_FLUSH
inline constexpr auto kWcFlush = static_cast<ibv_wc_opcode>(8);  // IBV_WC_FLUSH
inline constexpr std::uint8_t kFlushGlobal = 1u << 0;            // IBV_FLUSH_GLOBAL
inline constexpr std::uint8_t kFlushPersistent = 1u << 1;        // IBV_FLUSH_PERSISTENT
inline constexpr std::uint8_t kFlushRange = 0;                   // IBV_FLUSH_RANGE
inline constexpr std::uint8_t kFlushRegion = 1;                  // IBV_FLUSH_MR
inline constexpr std::uint32_t kOdpFlush = 1u << 6;              // IBV_ODP_SUPPORT_FLUSH
inline constexpr std::uint32_t kOdpAtomicWrite = 1u << 7;        // IBV_ODP_SUPPORT_ATOMIC_WRITE
// Of device_cap_flags_ex. The verbs have no names for them, the kernel has: IB_UVERBS_DEVICE_*.
inline constexpr std::uint64_t kDeviceFlushGlobal = 1ull << 38;
inline constexpr std::uint64_t kDeviceFlushPersistent = 1ull << 39;
inline constexpr std::uint64_t kDeviceAtomicWrite = 1ull << 40;

using WrFlush = void (*)(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t address,
                         std::size_t length, std::uint8_t type, std::uint8_t level);

/// ibv_qp_ex grows at its end.
struct QpExWithFlush : ibv_qp_ex {
  WrFlush wr_flush = nullptr;
};
template <typename Theirs>
concept KnowsFlush = requires(Theirs qp) {
  qp.wr_flush;
};
using QpEx = std::conditional_t<KnowsFlush<ibv_qp_ex>, ibv_qp_ex, QpExWithFlush>;
static_assert(sizeof(QpEx) == offsetof(ibv_qp_ex, wr_atomic_write) + 2 * sizeof(WrFlush));

}  // namespace verbena::front::newer
