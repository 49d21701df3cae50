// Pieces of registered memory: here (Slice) and at the peer (RemoteBuffer).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "rdma++/text.h"

namespace rdma {

namespace detail {
[[noreturn]] inline void throw_out_of_range(const char* what, std::uint64_t offset,
                                            std::uint64_t length, std::uint64_t size) {
  throw std::out_of_range{concat(what, ": offset ", offset, " and length ", length, " exceed the ",
                                 size, " bytes of it")};
}
inline void check_range(const char* what, std::uint64_t offset, std::uint64_t length,
                        std::uint64_t size) {
  if (offset > size || length > size - offset) throw_out_of_range(what, offset, length, size);
}
}  // namespace detail

/// {addr, length, lkey}: what the verbs call a scatter/gather entry, and laid out as one. A value
/// that doesn't own: the Buffer or MemoryRegion behind it must outlive the requests that use it.
struct Slice : ibv_sge {
  constexpr Slice() noexcept : ibv_sge{} {}
  constexpr Slice(std::uint64_t address, std::uint32_t size, std::uint32_t key) noexcept
      : ibv_sge{address, size, key} {}
  /// Bytes that need no key: inline data is copied while it is posted.
  [[nodiscard]] static Slice unregistered(std::span<const std::byte> bytes) noexcept {
    return {reinterpret_cast<std::uintptr_t>(bytes.data()),
            static_cast<std::uint32_t>(bytes.size()), 0};
  }

  [[nodiscard]] Slice slice(std::uint32_t offset, std::uint32_t size) const {
    detail::check_range("Slice::slice", offset, size, length);
    return {addr + offset, size, lkey};
  }
};
static_assert(sizeof(Slice) == sizeof(ibv_sge) && std::is_standard_layout_v<Slice>);

/// A capability: whoever holds it may access `length` bytes at the peer, as far as the region or
/// window behind `rkey` allows. Trivially copyable, so it can be sent as it is, between machines
/// of one byte order.
struct RemoteBuffer {
  std::uint64_t addr = 0;
  std::uint64_t length = 0;
  std::uint32_t rkey = 0;
  std::uint32_t reserved = 0;  ///< so that no byte of it is indeterminate

  [[nodiscard]] RemoteBuffer slice(std::uint64_t offset, std::uint64_t size) const {
    detail::check_range("RemoteBuffer::slice", offset, size, length);
    return {addr + offset, size, rkey};
  }
  friend bool operator==(const RemoteBuffer&, const RemoteBuffer&) = default;
};
static_assert(std::is_trivially_copyable_v<RemoteBuffer> && sizeof(RemoteBuffer) == 24);

}  // namespace rdma
