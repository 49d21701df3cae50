// What each completion status means, what usually causes it, what to do about it.
#pragma once

#include <infiniband/verbs.h>

#include <array>

namespace rdma {

struct StatusText {
  ibv_wc_status status;
  const char* name;
  const char* meaning;
  const char* cause;
  const char* remedy;
};

// clang-format off
inline constexpr std::array kStatusTexts{
    StatusText{IBV_WC_SUCCESS, "SUCCESS", "the request was carried out", "", ""},
    StatusText{IBV_WC_LOC_LEN_ERR, "LOC_LEN_ERR", "the message and the local buffer don't fit",
        "a message longer than the receive that it met, or a request longer than the port's max_msg_sz (UD: than the MTU)",
        "post receives as long as the longest message (UD: 40 bytes more for the GRH), or send less"},
    StatusText{IBV_WC_LOC_QP_OP_ERR, "LOC_QP_OP_ERR", "the queue pair can't do that request",
        "an opcode that its service doesn't have, more SGEs than max_send_sge, or a READ deeper than max_rd_atomic allows",
        "compare the request with the queue pair's type and capabilities"},
    StatusText{IBV_WC_LOC_EEC_OP_ERR, "LOC_EEC_OP_ERR", "an end-to-end context failed",
        "reliable datagrams, which no device offers any more", "report it to the device's vendor"},
    StatusText{IBV_WC_LOC_PROT_ERR, "LOC_PROT_ERR", "the local buffer may not be used so",
        "an lkey of another protection domain, a slice outside of its region, a region already gone, or no local_write where the device must write",
        "check the slice against its region; receives, READs and atomics need Access::local_write"},
    StatusText{IBV_WC_WR_FLUSH_ERR, "WR_FLUSH_ERR", "the queue pair was in the error state, the request was thrown out",
        "an earlier request failed (the first completion that isn't a flush says why), or somebody disconnected or called to_error()",
        "look for the first failure; then to_reset() and connect again"},
    StatusText{IBV_WC_MW_BIND_ERR, "MW_BIND_ERR", "the memory window could not be bound",
        "a region without Access::bind_window, a range outside of it, or a region of another protection domain",
        "register with Access::bind_window and bind inside the region"},
    StatusText{IBV_WC_BAD_RESP_ERR, "BAD_RESP_ERR", "the peer's answer was not one to this request",
        "a transport opcode or a length that doesn't belong there: two connections mixed up, or a broken peer",
        "check both queue pair numbers and PSNs; capture the packets"},
    StatusText{IBV_WC_LOC_ACCESS_ERR, "LOC_ACCESS_ERR", "a remote operation was refused by local memory",
        "a WRITE with immediate data to memory without the right", "give the region the rights that the peer uses"},
    StatusText{IBV_WC_REM_INV_REQ_ERR, "REM_INV_REQ_ERR", "the peer found the request invalid",
        "a message longer than its receive, an operation that its queue pair doesn't allow, an atomic that isn't aligned to 8 bytes, or more READs at once than it takes",
        "compare with the peer's qp_access_flags, receive length and max_dest_rd_atomic"},
    StatusText{IBV_WC_REM_ACCESS_ERR, "REM_ACCESS_ERR", "the peer's memory may not be accessed so",
        "a wrong or stale rkey, a range outside of its region, or a region without remote_write, remote_read or remote_atomic",
        "compare addr, length and rkey with what the peer registered, and the rights it gave"},
    StatusText{IBV_WC_REM_OP_ERR, "REM_OP_ERR", "the peer could not complete the request",
        "its receive queue failed locally, for instance a receive buffer that it may not write",
        "look at the peer's own completions: its status there says why"},
    StatusText{IBV_WC_RETRY_EXC_ERR, "RETRY_EXC_ERR", "no answer after every retry",
        "the peer is gone, in another state (not RTR), unreachable (firewall, wrong GID or QPN), or slower than timeout and retry_cnt allow",
        "check that the peer lives and that UDP port 4791 passes; raise timeout or retry_cnt"},
    StatusText{IBV_WC_RNR_RETRY_EXC_ERR, "RNR_RETRY_EXC_ERR", "the peer had no receive posted, after every retry",
        "messages faster than the peer posts receives, with rnr_retry below 7 (7 is for ever)",
        "post receives before the messages come, or raise rnr_retry"},
    StatusText{IBV_WC_LOC_RDD_VIOL_ERR, "LOC_RDD_VIOL_ERR", "reliable datagram domains differ",
        "reliable datagrams, which no device offers any more", "report it to the device's vendor"},
    StatusText{IBV_WC_REM_INV_RD_REQ_ERR, "REM_INV_RD_REQ_ERR", "the peer refused a reliable datagram",
        "reliable datagrams, which no device offers any more", "report it to the device's vendor"},
    StatusText{IBV_WC_REM_ABORT_ERR, "REM_ABORT_ERR", "the peer aborted the request",
        "its queue pair went to the error state or was reset in the middle", "look at the peer; connect again"},
    StatusText{IBV_WC_INV_EECN_ERR, "INV_EECN_ERR", "no such end-to-end context",
        "reliable datagrams, which no device offers any more", "report it to the device's vendor"},
    StatusText{IBV_WC_INV_EEC_STATE_ERR, "INV_EEC_STATE_ERR", "an end-to-end context in the wrong state",
        "reliable datagrams, which no device offers any more", "report it to the device's vendor"},
    StatusText{IBV_WC_FATAL_ERR, "FATAL_ERR", "the device failed",
        "hardware or driver: the queue pair can't be used any more", "look at the asynchronous events and the kernel's log; open the device again"},
    StatusText{IBV_WC_RESP_TIMEOUT_ERR, "RESP_TIMEOUT_ERR", "the answer came too late",
        "a peer that is overloaded or stopped in a debugger", "raise timeout"},
    StatusText{IBV_WC_GENERAL_ERR, "GENERAL_ERR", "a failure that has no status of its own",
        "specific to the device", "see vendor_err and the device's log"},
    StatusText{IBV_WC_TM_ERR, "TM_ERR", "tag matching failed",
        "an operation on a tag-matching queue whose state or tag doesn't fit", "check the order of tag operations"},
    StatusText{IBV_WC_TM_RNDV_INCOMPLETE, "TM_RNDV_INCOMPLETE", "a rendezvous by tag was not finished by the device",
        "the message was longer than the tagged buffer", "finish the transfer in software, or post longer buffers"},
};
// clang-format on

/// The row of a status; of GENERAL_ERR for one that is newer than this table.
[[nodiscard]] constexpr const StatusText& explain(ibv_wc_status status) {
  for (const StatusText& row : kStatusTexts) {
    if (row.status == status) return row;
  }
  return explain(IBV_WC_GENERAL_ERR);
}

}  // namespace rdma
