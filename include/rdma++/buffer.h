// Memory and its registration in one.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include "rdma++/memory_region.h"
#include "rdma++/value.h"

namespace rdma {

/// Owned, zeroed, page-aligned, registered. The region goes before the memory, so a peer that
/// still holds the rkey gets an error and never somebody else's bytes.
class Buffer {
 public:
  Buffer(const ProtectionDomain& pd, std::size_t size, Access access = Access::local_write)
      : memory_{map(size)}, region_{pd, {memory_.get(), size}, access | Access::local_write} {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&& other) noexcept {
    const Buffer gone{std::move(*this)};  // region first, then memory
    memory_ = std::move(other.memory_);
    region_ = std::move(other.region_);
    return *this;
  }

  [[nodiscard]] std::size_t size() const noexcept { return region_.size(); }
  [[nodiscard]] std::byte* data() const noexcept { return memory_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return region_.bytes(); }
  [[nodiscard]] const MemoryRegion& region() const noexcept { return region_; }
  [[nodiscard]] std::uint32_t lkey() const noexcept { return region_.lkey(); }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return region_.rkey(); }

  /// Up to the first zero, or all of it.
  [[nodiscard]] std::string_view text() const noexcept {
    const char* const first = reinterpret_cast<const char*>(data());
    return {first, strnlen(first, size())};
  }
  /// Writes it with a closing zero where there is room for one.
  void set_text(std::string_view text) {
    detail::check_range("Buffer::set_text", 0, text.size(), size());
    std::memcpy(data(), text.data(), text.size());
    if (text.size() < size()) data()[text.size()] = std::byte{0};
  }

  /// As many values as fit: buffer.as<float>()[3].
  template <Value T>
  [[nodiscard]] std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data()), size() / sizeof(T)};
  }

  [[nodiscard]] Slice slice(std::size_t offset, std::size_t length) const {
    return region_.slice(offset, length);
  }
  [[nodiscard]] Slice slice() const { return region_.slice(); }
  operator Slice() const& { return slice(); }
  operator Slice() const&& = delete;  // its memory would be gone before the request is done
  [[nodiscard]] RemoteBuffer remote() const noexcept { return region_.remote(); }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* memory) const noexcept {
      if (munmap(memory, size) != 0) report(concat("munmap: ", errno_text(errno)));
    }
  };

  static std::unique_ptr<std::byte, Unmap> map(std::size_t size) {
    if (size == 0) throw Error{"Buffer", "0 bytes", EINVAL, "a region needs at least one byte"};
    void* const memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error{"mmap", concat(size, " bytes"), errno};
    return {static_cast<std::byte*>(memory), Unmap{size}};
  }

  std::unique_ptr<std::byte, Unmap> memory_;
  MemoryRegion region_;
};

}  // namespace rdma
