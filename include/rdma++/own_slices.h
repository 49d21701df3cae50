// The slices of one request, of either queue.
#pragma once

#include <cstddef>
#include <span>

#include "rdma++/slice.h"

namespace rdma::detail {

/// Room for a few in the request itself; longer lists stay with the caller until they are posted.
class OwnSlices {
 public:
  static constexpr std::size_t kMost = 4;

  template <class Request>
  void set(Request& wr, const Slice& slice) noexcept {
    own_[0] = slice;
    wr.sg_list = own_;
    wr.num_sge = 1;
  }
  template <class Request, std::size_t N>
  void set(Request& wr, const Slice (&slices)[N]) noexcept {
    static_assert(N <= kMost, "give longer lists as std::span<const Slice>");
    for (std::size_t i = 0; i < N; ++i) own_[i] = slices[i];
    wr.sg_list = own_;
    wr.num_sge = static_cast<int>(N);
  }
  template <class Request>
  void set(Request& wr, std::span<const Slice> slices) noexcept {
    wr.sg_list = const_cast<Slice*>(slices.data());
    wr.num_sge = static_cast<int>(slices.size());
  }

  /// `wr` is a copy of the request whose slices `other` has.
  template <class Request>
  void copy(Request& wr, const OwnSlices& other) noexcept {
    if (wr.sg_list != other.own_) return;
      // g++ 12 doesn't see that a list outside of the request returned above.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
    for (int i = 0; i < wr.num_sge; ++i) own_[i] = other.own_[i];
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
    wr.sg_list = own_;
  }

 private:
  ibv_sge own_[kMost];  // the first num_sge of them have values
};

}  // namespace rdma::detail
