#pragma once

// The functions of CUDA's driver API that the lab calls, in declarations of its own. They are in
// libcuda.so.1, which comes with NVIDIA's driver and is found at run time: the lab is built, and
// starts, without it.

#include <cstddef>
#include <cstdint>
#include <string>

namespace gpu {

using Address = std::uint64_t;  // CUdeviceptr: it names memory of the GPU, this CPU can't follow it
using Result = int;             // 0: done

struct Driver {
  /// Finds the library and starts it. Throws lab::Skipped if there is no GPU. After fork(): a child
  /// can't use the driver of its parent.
  Driver();

  /// Throws lab::Failed, with the name of the call and of the error.
  void check(Result result, const std::string& call) const;

  Result (*init)(unsigned flags) = nullptr;
  Result (*error_name)(Result error, const char** name) = nullptr;
  Result (*error_text)(Result error, const char** text) = nullptr;
  Result (*device_count)(int* count) = nullptr;
  Result (*device)(int* device, int ordinal) = nullptr;
  Result (*device_name)(char* name, int size, int device) = nullptr;
  Result (*retain_context)(void** context, int device) = nullptr;
  Result (*set_context)(void* context) = nullptr;
  Result (*wait_for_context)() = nullptr;
  Result (*allocate)(Address* address, std::size_t bytes) = nullptr;
  Result (*release)(Address address) = nullptr;
  Result (*allocate_pinned)(void** address, std::size_t bytes, unsigned flags) = nullptr;
  Result (*release_pinned)(void* address) = nullptr;
  Result (*create_stream)(void** stream, unsigned flags) = nullptr;
  Result (*wait_for_stream)(void* stream) = nullptr;
  Result (*to_host)(void* to, Address from, std::size_t bytes, void* stream) = nullptr;
  Result (*to_device)(Address to, const void* from, std::size_t bytes, void* stream) = nullptr;
  Result (*load_module)(void** module, const void* text) = nullptr;
  Result (*find_kernel)(void** kernel, void* module, const char* name) = nullptr;
  Result (*launch)(void* kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                   unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared,
                   void* stream, void** parameters, void** extra) = nullptr;
  /// Since CUDA 11.7; nullptr before.
  Result (*export_range)(void* handle, Address address, std::size_t bytes, int type,
                         unsigned long long flags) = nullptr;
};

inline constexpr int kDmaBuf = 1;  // a type for export_range

}  // namespace gpu
