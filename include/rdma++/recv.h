// A request for a receive queue.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "rdma++/slice.h"

namespace rdma {

/// Room for one message, in the order of posting. UD: the first 40 bytes of it are for the GRH.
class Recv {
 public:
  static constexpr std::size_t kOwnSlices = 4;

  /// For messages without data, such as WRITE with immediate data.
  Recv() noexcept : wr_{} {}
  Recv(const Slice& room) noexcept : wr_{} {
    own_[0] = room;
    wr_.sg_list = own_;
    wr_.num_sge = 1;
  }
  /// Scattered to several pieces.
  template <std::size_t N>
  explicit Recv(const Slice (&pieces)[N]) noexcept : wr_{} {
    static_assert(N <= kOwnSlices, "give longer lists as std::span<const Slice>");
    for (std::size_t i = 0; i < N; ++i) own_[i] = pieces[i];
    wr_.sg_list = own_;
    wr_.num_sge = static_cast<int>(N);
  }
  /// The list stays with the caller until it is posted.
  explicit Recv(std::span<const Slice> pieces) noexcept : wr_{} {
    wr_.sg_list = const_cast<Slice*>(pieces.data());
    wr_.num_sge = static_cast<int>(pieces.size());
  }
  Recv(const Recv& other) noexcept : wr_{other.wr_} { take_slices(other); }
  Recv& operator=(const Recv& other) noexcept {
    if (this != &other) {
      wr_ = other.wr_;
      take_slices(other);
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
  void take_slices(const Recv& other) noexcept {
    if (other.wr_.sg_list != other.own_) return;
      // g++ 12 doesn't see that a list outside of the request returned above.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
    for (int i = 0; i < wr_.num_sge; ++i) own_[i] = other.own_[i];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
    wr_.sg_list = own_;
  }

  mutable ibv_recv_wr wr_;
  ibv_sge own_[kOwnSlices];  // the first num_sge of them have values
};

}  // namespace rdma
