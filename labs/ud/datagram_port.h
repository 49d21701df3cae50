#pragma once

// A UD queue pair with room for datagrams.

#include <algorithm>
#include <tuple>
#include <vector>

#include "labs/common/lab.h"
#include "rdma++/rdma.h"

namespace ud {

inline constexpr std::size_t kReceives = 64;
inline constexpr std::size_t kGrh = rdma::AddressHandle::kGrhSize;  // 40
inline constexpr std::uint32_t kQkey = rdma::Multicast::kQkey;

class DatagramPort {
 public:
  DatagramPort(const rdma::ProtectionDomain& pd, const rdma::CompletionQueue& sent,
               const rdma::CompletionQueue& received, const rdma::GidEntry& from, std::size_t size)
      : qp{rdma::QueuePair::ud(pd)
               .send_cq(sent)
               .recv_cq(received)
               .depth(16, kReceives)
               .sge(1, 1)
               .create()},
        size_{kGrh + size},
        room_{pd, kReceives * size_} {
    std::ignore = qp.info(1, from);  // fixes the address to speak from
    qp.activate(kQkey);              // INIT, RTR, RTS: no peer to name
    for (std::size_t i = 0; i < kReceives; ++i) taken_.push_back(i);
    refill();
  }

  /// Posts what was taken since.
  void refill() {
    for (const std::size_t slot : taken_) {
      std::ranges::fill(bytes(slot), std::byte{0});
      qp.post(rdma::Recv{room_.slice(slot * size_, size_)}.id(slot)).check();
    }
    taken_.clear();
  }
  /// GRH and payload.
  [[nodiscard]] std::span<std::byte> take(const rdma::Completion& done) {
    done.check();
    lab::check(done.has_grh() && done.length() == size_,
               "{} bytes arrived instead of {} of GRH and {}; do both ends have the same --size?",
               done.length(), kGrh, size_ - kGrh);
    taken_.push_back(done.id());
    return bytes(done.id());
  }

  rdma::QueuePair qp;

 private:
  [[nodiscard]] std::span<std::byte> bytes(std::size_t slot) const {
    return room_.bytes().subspan(slot * size_, size_);
  }

  std::size_t size_;
  rdma::Buffer room_;
  std::vector<std::size_t> taken_;
};

/// Who sent it. RoCE v2 on IPv4 leaves the first 20 bytes alone; the IPv4 header is behind them.
[[nodiscard]] inline rdma::Gid source_of(std::span<const std::byte> grh) {
  rdma::Gid gid = *rdma::Gid::parse("0.0.0.0");
  if (std::to_integer<unsigned>(grh[0]) >> 4 == 6) {
    std::memcpy(gid.bytes.data(), &grh[8], 16);
  } else {
    std::memcpy(gid.bytes.data() + 12, &grh[20 + 12], 4);
  }
  return gid;
}

}  // namespace ud
