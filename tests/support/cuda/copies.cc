// Copies, which a stream makes later, in order. A call that isn't asynchronous waits for its own.

#include <atomic>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/contexts.h"
#include "tests/support/cuda/memory.h"

namespace stand_in {
namespace {

enum class Wait : bool { no, yes };

CUresult start(CUstream named, Wait wait, std::function<void()> work) {
  const Chosen chosen = choose_for_work(named);
  if (chosen.error != CUDA_SUCCESS) return chosen.error;
  if (!chosen.stream->add(std::move(work))) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (wait == Wait::yes) chosen.stream->drain();
  return CUDA_SUCCESS;
}

/// What a copy of rows does; one row, if it is all in one piece.
struct Rows {
  std::size_t width = 0, height = 1;
  std::size_t to_pitch = 0, from_pitch = 0;

  [[nodiscard]] static std::size_t extent(std::size_t pitch, std::size_t width,
                                          std::size_t height) {
    return (height - 1) * pitch + width;
  }
};

CUresult copy(const std::optional<Extent>& to, const std::optional<Extent>& from, Rows rows,
              CUstream stream, Wait wait) {
  const bool flip = take_flip();
  if (const Current now = current(); now.error != CUDA_SUCCESS) return now.error;
  if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
  check_registered();
  return start(stream, wait, [to = *to, from = *from, rows, flip] {
    for (std::size_t y = 0; y < rows.height; ++y)
      move_bytes(to, y * rows.to_pitch, from, y * rows.from_pitch, rows.width);
    if (flip && rows.width > 0) {
      std::byte wrong{};
      const Extent one{{&wrong, 1, nullptr}};
      move_bytes(one, 0, to, rows.width / 2, 1);
      wrong = ~wrong;
      move_bytes(to, rows.width / 2, one, 0, 1);
    }
  });
}

/// One side of a copy of rows. nullopt: bad, or not there.
std::optional<Extent> side(CUmemorytype type, const void* host, CUdeviceptr device, std::size_t x,
                           std::size_t y, std::size_t pitch, const CUDA_MEMCPY2D& c) {
  if (c.Height > 1 && pitch < x + c.WidthInBytes) return std::nullopt;
  const std::size_t size = Rows::extent(pitch, c.WidthInBytes, c.Height);
  if (type == CU_MEMORYTYPE_HOST)
    return host_extent(static_cast<const std::byte*>(host) + y * pitch + x, size);
  if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) return std::nullopt;
  return device_extent(device + y * pitch + x, size);
}

template <typename T>
CUresult write_value(CUstream stream, CUdeviceptr to, T value) {
  if (to % sizeof value != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto extent = device_extent(to, sizeof value);
  if (!extent) return CUDA_ERROR_INVALID_VALUE;
  return start(stream, Wait::no, [place = extent->front(), value] {
    std::atomic_ref{*reinterpret_cast<T*>(place.at)}.store(value);
  });
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t size) {
  return call("cuMemcpyDtoH", [&] {
    return copy(host_extent(to, size), device_extent(from, size), {size}, nullptr, Wait::yes);
  });
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t size) {
  return call("cuMemcpyHtoD", [&] {
    return copy(device_extent(to, size), host_extent(from, size), {size}, nullptr, Wait::yes);
  });
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size) {
  return call("cuMemcpyDtoD", [&] {
    return copy(device_extent(to, size), device_extent(from, size), {size}, nullptr, Wait::yes);
  });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyDtoHAsync", [&] {
    return copy(host_extent(to, size), device_extent(from, size), {size}, stream, Wait::no);
  });
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size, CUstream stream) {
  return call("cuMemcpyHtoDAsync", [&] {
    return copy(device_extent(to, size), host_extent(from, size), {size}, stream, Wait::no);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size, CUstream stream) {
  return call("cuMemcpyDtoDAsync", [&] {
    return copy(device_extent(to, size), device_extent(from, size), {size}, stream, Wait::no);
  });
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* given, CUstream stream) {
  return call("cuMemcpy2DAsync", [&]() -> CUresult {
    if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_MEMCPY2D& c = *given;
    if (c.WidthInBytes == 0 || c.Height == 0) return CUDA_SUCCESS;
    return copy(side(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstXInBytes, c.dstY, c.dstPitch, c),
                side(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcXInBytes, c.srcY, c.srcPitch, c),
                {c.WidthInBytes, c.Height, c.dstPitch, c.srcPitch}, stream, Wait::no);
  });
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t size) {
  return call("cuMemsetD8", [&]() -> CUresult {
    const auto extent = device_extent(to, size);
    if (!extent) return CUDA_ERROR_INVALID_VALUE;
    return start(nullptr, Wait::yes, [extent = *extent, value] {
      for (const Piece& piece : extent) std::memset(piece.at, value, piece.size);
    });
  });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr to, std::uint32_t value, unsigned) {
  return call("cuStreamWriteValue32", [&] { return write_value(stream, to, value); });
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr to, std::uint64_t value, unsigned) {
  return call("cuStreamWriteValue64", [&] { return write_value(stream, to, value); });
}
