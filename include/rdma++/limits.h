// Why a device refused: what was asked for against what it can. Pure functions of the numbers;
// each returns "" when nothing exceeds a limit.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "rdma++/text.h"

namespace rdma::limits {

/// Gathers "max_send_wr 100000 exceeds max_qp_wr 32768" and the like.
class Excess {
 public:
  template <class Asked, class Limit>
  Excess& check(std::string_view what, Asked asked, std::string_view name, Limit limit) {
    if (static_cast<std::uint64_t>(asked) > static_cast<std::uint64_t>(limit)) {
      add(concat(what, ' ', asked, " exceeds ", name, ' ', limit));
    }
    return *this;
  }
  Excess& add(std::string_view finding) {
    text_.append(text_.empty() ? "" : "; ").append(finding);
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

[[nodiscard]] inline std::string of_queue_pair(const ibv_qp_cap& asked, bool has_srq,
                                               const ibv_device_attr& device) {
  Excess excess;
  excess.check("max_send_wr", asked.max_send_wr, "max_qp_wr", device.max_qp_wr)
      .check("max_send_sge", asked.max_send_sge, "max_sge", device.max_sge);
  if (!has_srq) {
    excess.check("max_recv_wr", asked.max_recv_wr, "max_qp_wr", device.max_qp_wr)
        .check("max_recv_sge", asked.max_recv_sge, "max_sge", device.max_sge);
  }
  // No device tells its limit for inline data.
  if (excess.text().empty() && asked.max_inline_data > 0) {
    return concat("within the device's limits; max_inline_data ", asked.max_inline_data,
                  " may be too much, try 0");
  }
  return excess.text();
}

[[nodiscard]] inline std::string of_completion_queue(int entries, int vector,
                                                     const ibv_device_attr& device, int vectors) {
  Excess excess;
  if (entries < 1) excess.add(concat("cqe ", entries, " is not positive"));
  excess.check("cqe", entries < 0 ? 0 : entries, "max_cqe", device.max_cqe);
  if (vector < 0 || vector >= vectors) {
    excess.add(concat("comp_vector ", vector, " is not below num_comp_vectors ", vectors));
  }
  return excess.text();
}

[[nodiscard]] inline std::string of_shared_receive_queue(const ibv_srq_attr& asked,
                                                         const ibv_device_attr& device) {
  return Excess{}
      .check("max_wr", asked.max_wr, "max_srq_wr", device.max_srq_wr)
      .check("max_sge", asked.max_sge, "max_srq_sge", device.max_srq_sge)
      .check("srq_limit", asked.srq_limit, "max_wr", asked.max_wr)
      .text();
}

[[nodiscard]] constexpr int bytes_of(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

/// Of ibv_modify_qp: `mask` says which attributes were given.
[[nodiscard]] inline std::string of_transition(const ibv_qp_attr& asked, int mask,
                                               const ibv_device_attr& device,
                                               const ibv_port_attr& port) {
  Excess excess;
  if ((mask & IBV_QP_PORT) != 0 && (asked.port_num < 1 || asked.port_num > device.phys_port_cnt)) {
    excess.add(concat("port_num ", int{asked.port_num}, " is not one of 1 to ",
                      int{device.phys_port_cnt}));
  }
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && asked.pkey_index >= port.pkey_tbl_len) {
    excess.add(
        concat("pkey_index ", asked.pkey_index, " is not below pkey_tbl_len ", port.pkey_tbl_len));
  }
  if ((mask & IBV_QP_PATH_MTU) != 0) {
    if (asked.path_mtu > port.active_mtu) {
      excess.add(concat("path_mtu ", bytes_of(asked.path_mtu), " exceeds active_mtu ",
                        bytes_of(port.active_mtu), " of the port"));
    }
  }
  if ((mask & IBV_QP_AV) != 0) {
    if (asked.ah_attr.is_global != 0 && asked.ah_attr.grh.sgid_index >= port.gid_tbl_len) {
      excess.add(concat("sgid_index ", int{asked.ah_attr.grh.sgid_index},
                        " is not below gid_tbl_len ", port.gid_tbl_len));
    }
    if (asked.ah_attr.is_global == 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET) {
      excess.add("RoCE needs is_global and the peer's GID");
    }
  }
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    excess.check("max_dest_rd_atomic", int{asked.max_dest_rd_atomic}, "max_qp_rd_atom",
                 device.max_qp_rd_atom);
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
    excess.check("max_rd_atomic", int{asked.max_rd_atomic}, "max_qp_init_rd_atom",
                 device.max_qp_init_rd_atom);
  }
  // Fields of 3 and 5 bits on the wire and in the verbs.
  if ((mask & IBV_QP_RETRY_CNT) != 0) excess.check("retry_cnt", int{asked.retry_cnt}, "", 7);
  if ((mask & IBV_QP_RNR_RETRY) != 0) excess.check("rnr_retry", int{asked.rnr_retry}, "", 7);
  if ((mask & IBV_QP_TIMEOUT) != 0) excess.check("timeout", int{asked.timeout}, "", 31);
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) {
    excess.check("min_rnr_timer", int{asked.min_rnr_timer}, "", 31);
  }
  return excess.text();
}

}  // namespace rdma::limits
