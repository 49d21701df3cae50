#pragma once

// The functions of NVIDIA's driver that we call, found at run time in the libcuda.so.1 that the
// program has loaded. Declared here: nothing of CUDA is needed to build.

#include <cstddef>
#include <cstdint>
#include <string>

namespace verbena::memory::cuda {

// As in cuda.h.
using Result = int;
using DevicePointer = std::uint64_t;
using Device = int;
struct OpaqueContext;
using Context = OpaqueContext*;
struct OpaqueStream;
using Stream = OpaqueStream*;

inline constexpr Result kSuccess = 0;

enum class PointerAttribute : int {
  context = 1,
  memory_type = 2,
  buffer_id = 7,
  is_managed = 8,
  device_ordinal = 9,
};
enum class MemoryType : unsigned { unknown = 0, host = 1, device = 2, array = 3, unified = 4 };

inline constexpr int kCanUse64BitStreamMemoryOperations = 122;  // a CUdevice_attribute
inline constexpr unsigned kNonBlocking = 1;                     // a stream
inline constexpr unsigned kRegisterPortable = 1;                // for all contexts
inline constexpr unsigned kRegisterReadOnly = 8;
inline constexpr int kCaptureRelaxed = 2;

/// CUDA_MEMCPY2D.
struct Copy2D {
  std::size_t source_x = 0;
  std::size_t source_y = 0;
  MemoryType source_type{};
  const void* source_host = nullptr;
  DevicePointer source_device = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;

  std::size_t target_x = 0;
  std::size_t target_y = 0;
  MemoryType target_type{};
  void* target_host = nullptr;
  DevicePointer target_device = 0;
  void* target_array = nullptr;
  std::size_t target_pitch = 0;

  std::size_t width = 0;
  std::size_t height = 0;
};
static_assert(sizeof(Copy2D) == 128);

struct Driver {
  /// nullptr: the program has none, or one that is too old for us. Any thread.
  [[nodiscard]] static const Driver* loaded();

  Result (*pointer_attributes)(unsigned count, PointerAttribute* which, void** values,
                               DevicePointer pointer) = nullptr;
  Result (*address_range)(DevicePointer* base, std::size_t* size, DevicePointer pointer) = nullptr;
  Result (*push_context)(Context context) = nullptr;
  Result (*pop_context)(Context* context) = nullptr;
  Result (*retain_primary)(Context* context, Device device) = nullptr;
  Result (*device_attribute)(int* value, int attribute, Device device) = nullptr;
  Result (*context_device)(Device* device) = nullptr;  // of the current one
  Result (*allocate)(DevicePointer* at, std::size_t bytes) = nullptr;
  Result (*create_stream)(Stream* stream, unsigned flags) = nullptr;
  Result (*synchronize)(Stream stream) = nullptr;
  Result (*copy_out)(void* to, DevicePointer from, std::size_t bytes, Stream stream) = nullptr;
  Result (*copy_in)(DevicePointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  Result (*copy_2d)(const Copy2D* copy, Stream stream) = nullptr;
  Result (*register_host)(void* at, std::size_t bytes, unsigned flags) = nullptr;
  Result (*unregister_host)(void* at) = nullptr;
  Result (*error_name)(Result error, const char** name) = nullptr;

  // May be missing.
  Result (*context_id)(Context context, unsigned long long* id) = nullptr;  // CUDA 12
  Result (*exchange_capture_mode)(int* mode) = nullptr;
  Result (*write_32)(Stream stream, DevicePointer to, std::uint32_t value,
                     unsigned flags) = nullptr;
  Result (*write_64)(Stream stream, DevicePointer to, std::uint64_t value,
                     unsigned flags) = nullptr;

  /// As CUDA_ERROR_INVALID_VALUE.
  [[nodiscard]] std::string name_of(Result error) const;
};

/// What the driver knows of an address.
struct Pointer {
  MemoryType type{};
  Context context = nullptr;  // nullptr: any of the device may use it
  std::uint64_t buffer = 0;   // names the allocation: never used again
  bool managed = false;
  Device device = 0;

  [[nodiscard]] bool on_device() const { return type == MemoryType::device && !managed; }
};
[[nodiscard]] Pointer look_up(const Driver& driver, std::uint64_t address);

/// While it lives, calls of this thread are for the context, and a capture of a graph that somebody
/// has begun doesn't forbid them.
class Current {
 public:
  Current(const Driver& driver, Context context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

  explicit operator bool() const { return pushed_; }

 private:
  const Driver& driver_;
  int capture_mode_ = kCaptureRelaxed;
  bool pushed_;
};

}  // namespace verbena::memory::cuda
