// How a request ended.
#pragma once

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "rdma++/completion_status.h"
#include "rdma++/error.h"

namespace rdma {

/// One entry of a completion queue, laid out as ibv_wc, so that batches are polled in place.
/// After a failure only id(), status, qp_num and vendor_err are to be trusted.
struct Completion : ibv_wc {
  [[nodiscard]] bool ok() const noexcept { return status == IBV_WC_SUCCESS; }
  explicit operator bool() const noexcept { return ok(); }

  /// As given to the request with id().
  [[nodiscard]] std::uint64_t id() const noexcept { return wr_id; }
  [[nodiscard]] bool is_receive() const noexcept { return (opcode & IBV_WC_RECV) != 0; }
  /// Of a receive or a READ.
  [[nodiscard]] std::uint32_t length() const noexcept { return byte_len; }

  [[nodiscard]] bool has_imm() const noexcept { return (wc_flags & IBV_WC_WITH_IMM) != 0; }
  /// In host order: what the peer gave to imm().
  [[nodiscard]] std::uint32_t imm() const noexcept { return ntohl(imm_data); }

  [[nodiscard]] bool has_invalidated() const noexcept { return (wc_flags & IBV_WC_WITH_INV) != 0; }
  /// The rkey that the peer's SEND with invalidate took away.
  [[nodiscard]] std::uint32_t invalidated() const noexcept { return invalidated_rkey; }
  /// UD: the first 40 bytes of the buffer are a GRH.
  [[nodiscard]] bool has_grh() const noexcept { return (wc_flags & IBV_WC_GRH) != 0; }

  /// "REM_ACCESS_ERR: the peer's memory may not be accessed so (request 7, qp 0x11, vendor_err
  /// 0x0); usual cause: …; what to do: …"
  [[nodiscard]] std::string message() const {
    const StatusText& row = explain(status);
    std::string result = concat(row.name, ": ", row.meaning, " (request ", wr_id, ", qp ",
                                hex(qp_num), ", vendor_err ", hex(vendor_err), ')');
    if (!ok()) {
      result.append("; usual cause: ").append(row.cause);
      result.append("; what to do: ").append(row.remedy);
    }
    return result;
  }

  /// Throws CompletionError unless ok().
  const Completion& check() const;
};
static_assert(sizeof(Completion) == sizeof(ibv_wc) && std::is_trivially_copyable_v<Completion>);

/// A completion that somebody wanted to be a success.
class CompletionError : public Error {
 public:
  explicit CompletionError(const Completion& completion)
      : Error{"completion", "", 0, completion.message()}, completion_{completion} {}
  [[nodiscard]] const Completion& completion() const noexcept { return completion_; }
  [[nodiscard]] ibv_wc_status status() const noexcept { return completion_.status; }

 private:
  Completion completion_;
};

inline const Completion& Completion::check() const {
  if (!ok()) throw CompletionError{*this};
  return *this;
}

}  // namespace rdma
