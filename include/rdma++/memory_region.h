// Memory that the device may access.
#pragma once

#include <infiniband/verbs.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rdma++/access.h"
#include "rdma++/checks.h"
#include "rdma++/protection_domain.h"
#include "rdma++/slice.h"

namespace rdma {

/// Registration of the caller's bytes, which must outlive it. `local_write` is added where remote
/// rights imply it.
class MemoryRegion : public Object<ibv_mr> {
 public:
  MemoryRegion(const ProtectionDomain& pd, std::span<std::byte> bytes, Access access)
      : Object{enroll(pd, bytes, with_implied(access))},
        bytes_{bytes},
        access_{with_implied(access)} {}
  /// Memory of another device, such as a GPU, exported as a dma-buf. `bytes` is where the program
  /// sees it; requests go by these addresses, and nobody here follows them.
  [[nodiscard]] static MemoryRegion of_dmabuf(const ProtectionDomain& pd, int fd,
                                              std::uint64_t offset, std::span<std::byte> bytes,
                                              Access access) {
    access = with_implied(access);
    return {enroll_dmabuf(pd, fd, offset, bytes, access), bytes, access};
  }
  MemoryRegion(MemoryRegion&&) noexcept = default;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept {
    check_idle();
    bytes_ = other.bytes_;
    access_ = other.access_;
    Object::operator=(std::move(other));
    return *this;
  }
  ~MemoryRegion() { check_idle(); }

  [[nodiscard]] std::uint32_t lkey() const noexcept { return raw()->lkey; }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return raw()->rkey; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] Access access() const noexcept { return access_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

  /// For work requests of this side.
  [[nodiscard]] Slice slice(std::size_t offset, std::size_t length) const {
    detail::check_range("MemoryRegion::slice", offset, length, size());
    detail::check_range("MemoryRegion::slice of one request", 0, length, UINT32_MAX);
    return {start() + offset, static_cast<std::uint32_t>(length), lkey()};
  }
  [[nodiscard]] Slice slice() const { return slice(0, size()); }
  /// For the peer.
  [[nodiscard]] RemoteBuffer remote() const noexcept {
    return {has(access_, Access::zero_based) ? 0 : start(), size(), rkey()};
  }

 private:
  MemoryRegion(Shared<ibv_mr> raw, std::span<std::byte> bytes, Access access)
      : Object{std::move(raw)}, bytes_{bytes}, access_{access} {}

  [[nodiscard]] std::uint64_t start() const noexcept {
    return reinterpret_cast<std::uintptr_t>(bytes_.data());
  }
  void check_idle() const noexcept {
    if constexpr (kChecks) {
      if (raw() != nullptr) checks::released(start(), size());
    }
  }

  static Shared<ibv_mr> enroll(const ProtectionDomain& pd, std::span<std::byte> bytes,
                               Access access) {
    // A macro, which hands it on as an unsigned.
    const auto rights = static_cast<unsigned>(access);
    ibv_mr* const raw = ibv_reg_mr(pd.raw(), bytes.data(), bytes.size(), rights);
    if (raw == nullptr) throw refusal(pd, bytes, access, errno);
    return own(raw, "ibv_dereg_mr", ibv_dereg_mr, pd.share());
  }
  static Shared<ibv_mr> enroll_dmabuf(const ProtectionDomain& pd, int fd, std::uint64_t offset,
                                      std::span<std::byte> bytes, Access access) {
    ibv_mr* const raw =
        ibv_reg_dmabuf_mr(pd.raw(), offset, bytes.size(),
                          reinterpret_cast<std::uintptr_t>(bytes.data()), fd, bits(access));
    if (raw == nullptr) {
      throw Error{"ibv_reg_dmabuf_mr", detail::device_of(pd.raw()->context), errno,
                  concat(bytes.size(), " bytes at ", offset, " of descriptor ", fd)};
    }
    return own(raw, "ibv_dereg_mr", ibv_dereg_mr, pd.share());
  }

  static Error refusal(const ProtectionDomain& pd, std::span<const std::byte> bytes, Access access,
                       int code) {
    const auto range = concat(bytes.size(), " bytes at ", static_cast<const void*>(bytes.data()));
    std::string cause;
    const auto most = detail::limits_of(pd.raw()->context).max_mr_size;
    rlimit locked{};
    getrlimit(RLIMIT_MEMLOCK, &locked);
    if (bytes.size() > most) {
      cause = concat("length ", bytes.size(), " exceeds max_mr_size ", most);
    } else if (code == EFAULT) {
      cause = "part of the range isn't mapped, or not writable although the rights are to write";
    } else if ((code == ENOMEM || code == EAGAIN) && locked.rlim_cur != RLIM_INFINITY) {
      cause = concat("RLIMIT_MEMLOCK is ", locked.rlim_cur,
                     " bytes: `ulimit -l unlimited`, or register less");
    } else {
      cause = concat("access ", to_string(access));
    }
    return {"ibv_reg_mr", concat(detail::device_of(pd.raw()->context), ", ", range), code, cause};
  }

  std::span<std::byte> bytes_;
  Access access_;
};

}  // namespace rdma
