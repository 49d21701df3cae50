#pragma once

#include "rdma++/rdma.h"

namespace lab {

/// Says goodbye, and again if it isn't answered. The answer itself may have been lost and the peer
/// be gone by then: that is a goodbye as well.
inline void hang_up(rdma::Connection& connection) {
  constexpr std::chrono::seconds kPatience{12};  // rdma_cm repeats itself after some 4 s
  try {
    connection.disconnect(kPatience);
  } catch (const rdma::TimedOut&) {
    connection.qp().to_error();
  }
}

}  // namespace lab
