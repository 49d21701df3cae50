// A part of a region under a key of its own, given and taken away without registering anew.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "rdma++/memory_region.h"
#include "rdma++/object.h"
#include "rdma++/post_status.h"
#include "rdma++/protection_domain.h"
#include "rdma++/queue_pair.h"
#include "rdma++/work_request.h"

namespace rdma {

/// Type 1 is bound with bind() and gets a fresh key each time. Type 2 is bound with a BindWindow
/// request, under next_rkey(), and can be invalidated by either side. The region must have been
/// registered with Access::bind_window and must outlive the binding.
class MemoryWindow : public Object<ibv_mw> {
 public:
  enum class Type { one = IBV_MW_TYPE_1, two = IBV_MW_TYPE_2 };

  MemoryWindow(const ProtectionDomain& pd, Type type) : Object{allocate(pd, type)} {}

  [[nodiscard]] std::uint32_t rkey() const noexcept { return raw()->rkey; }
  /// Type 2: the consumer owns the lower 8 bits of the key; each binding takes the next.
  [[nodiscard]] std::uint32_t next_rkey() const noexcept { return ibv_inc_rkey(rkey()); }

  /// Type 1: posts the binding to the send queue of `qp`; it holds when its completion came, or for
  /// every request behind it there. rkey() is the new key at once.
  PostStatus bind(const QueuePair& qp, const MemoryRegion& region, std::uint64_t offset,
                  std::uint64_t length, Access access, std::uint64_t id = 0,
                  bool signaled = true) const {
    detail::check_range("MemoryWindow::bind", offset, length, region.size());
    ibv_mw_bind binding{};
    binding.wr_id = id;
    binding.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    binding.bind_info = {region.raw(), region.slice(offset, 0).addr, length,
                         static_cast<unsigned>(access)};
    return {"ibv_bind_mw", ibv_bind_mw(qp.raw(), raw(), &binding)};
  }
  /// For the peer; `key` is what the window was bound under.
  [[nodiscard]] static RemoteBuffer remote(std::uint32_t key, const MemoryRegion& region,
                                           std::uint64_t offset, std::uint64_t length) {
    return {region.remote().addr + offset, length, key};
  }

 private:
  static Shared<ibv_mw> allocate(const ProtectionDomain& pd, Type type) {
    ibv_mw* const raw = ibv_alloc_mw(pd.raw(), static_cast<ibv_mw_type>(type));
    if (raw == nullptr) {
      throw Error{"ibv_alloc_mw", detail::device_of(pd.raw()->context), errno,
                  concat("type ", static_cast<int>(type), ", max_mw ",
                         detail::limits_of(pd.raw()->context).max_mw)};
    }
    return own(raw, "ibv_dealloc_mw", ibv_dealloc_mw, pd.share());
  }
};

inline BindWindow::BindWindow(const MemoryWindow& window, std::uint32_t rkey,
                              const MemoryRegion& region, std::uint64_t offset,
                              std::uint64_t length, Access access) noexcept
    : Fluent{IBV_WR_BIND_MW} {
  wr_.bind_mw.mw = window.raw();
  wr_.bind_mw.rkey = rkey;
  wr_.bind_mw.bind_info = {region.raw(),
                           reinterpret_cast<std::uintptr_t>(region.bytes().data()) + offset, length,
                           static_cast<unsigned>(access)};
}

}  // namespace rdma
