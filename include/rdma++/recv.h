// A request for a receive queue.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma++/own_slices.h"

namespace rdma {

/// Room for one message, in the order of posting. UD: the first 40 bytes of it are for the GRH.
class Recv {
 public:
  /// For messages without data, such as WRITE with immediate data.
  Recv() noexcept : wr_{} {}
  Recv(const Slice& room) noexcept : wr_{} { slices_.set(wr_, room); }
  /// Scattered to several pieces.
  template <std::size_t N>
  explicit Recv(const Slice (&pieces)[N]) noexcept : wr_{} {
    slices_.set(wr_, pieces);
  }
  /// The list stays with the caller until it is posted.
  explicit Recv(std::span<const Slice> pieces) noexcept : wr_{} { slices_.set(wr_, pieces); }
  Recv(const Recv& other) noexcept : wr_{other.wr_} { slices_.copy(wr_, other.slices_); }
  Recv& operator=(const Recv& other) noexcept {
    if (this != &other) {
      wr_ = other.wr_;
      slices_.copy(wr_, other.slices_);
    }
    return *this;
  }

  /// Comes back as Completion::id().
  Recv& id(std::uint64_t value) noexcept {
    wr_.wr_id = value;
    return *this;
  }
  [[nodiscard]] std::uint64_t id() const noexcept { return wr_.wr_id; }
  void set_next(const Recv* next) noexcept { wr_.next = next != nullptr ? next->raw() : nullptr; }
  /// The verbs take it as non-const and don't change it.
  [[nodiscard]] ibv_recv_wr* raw() const noexcept { return &wr_; }

 private:
  mutable ibv_recv_wr wr_;
  detail::OwnSlices slices_;
};

}  // namespace rdma
