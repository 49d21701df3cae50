#pragma once

// What is done wrong, one after the other.

#include <cstdint>

#include "rdma++/rdma.h"

namespace errors {

enum class Deed : std::uint8_t {
  too_long,
  not_allowed,
  past_own,
  past_theirs,
  no_receive,
  nobody,
  gave_up
};

struct Case {
  Deed deed;
  ibv_wc_status status;  // at the client
  const char* words;
  rdma::RtsAttributes patience{};
  rdma::Access access = rdma::Access::remote_write;  // of the queue pairs
};
constexpr Case kCases[] = {
    {Deed::too_long, IBV_WC_REM_INV_REQ_ERR, "a SEND one byte longer than the server's receive"},
    {.deed = Deed::not_allowed,
     .status = IBV_WC_REM_INV_REQ_ERR,
     .words = "a WRITE to a queue pair that allows none",
     .access = rdma::Access::none},
    {Deed::past_own, IBV_WC_LOC_PROT_ERR, "a SEND that reads one byte past its own region"},
    {Deed::past_theirs, IBV_WC_REM_ACCESS_ERR, "a WRITE one byte past the server's region"},
    {.deed = Deed::no_receive,
     .status = IBV_WC_RNR_RETRY_EXC_ERR,
     .words = "a SEND without a receive, rnr_retry 2",
     .patience = {.rnr_retry = 2}},
    {.deed = Deed::nobody,
     .status = IBV_WC_RETRY_EXC_ERR,
     .words = "a SEND to a queue pair in RESET, 3 tries of 17 ms or more",
     .patience = {.timeout = 12, .retry_count = 2}},
    {Deed::gave_up, IBV_WC_WR_FLUSH_ERR, "nothing wrong, but the queue pair was moved to ERR"},
};

/// The kernel's rxe takes the first case for a fault of the receive itself.
constexpr ibv_wc_status kRxeSender = IBV_WC_REM_OP_ERR, kRxeReceiver = IBV_WC_LOC_QP_OP_ERR;

}  // namespace errors
