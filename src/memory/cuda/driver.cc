#include "memory/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <atomic>
#include <string_view>

namespace verbena::memory::cuda {
namespace {

template <typename F>
bool find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Driver& d) {
  find(library, "cuCtxGetId", d.context_id);
  find(library, "cuThreadExchangeStreamCaptureMode", d.exchange_capture_mode);
  find(library, "cuStreamWriteValue32_v2", d.write_32);
  find(library, "cuStreamWriteValue64_v2", d.write_64);
  return find(library, "cuPointerGetAttributes", d.pointer_attributes) &&
         find(library, "cuMemGetAddressRange_v2", d.address_range) &&
         find(library, "cuCtxPushCurrent_v2", d.push_context) &&
         find(library, "cuCtxPopCurrent_v2", d.pop_context) &&
         find(library, "cuDevicePrimaryCtxRetain", d.retain_primary) &&
         find(library, "cuDeviceGetAttribute", d.device_attribute) &&
         find(library, "cuCtxGetDevice", d.context_device) &&
         find(library, "cuMemAlloc_v2", d.allocate) &&
         find(library, "cuStreamCreate", d.create_stream) &&
         find(library, "cuStreamSynchronize", d.synchronize) &&
         find(library, "cuMemcpyDtoHAsync_v2", d.copy_out) &&
         find(library, "cuMemcpyHtoDAsync_v2", d.copy_in) &&
         find(library, "cuMemcpy2DAsync_v2", d.copy_2d) &&
         find(library, "cuMemHostRegister_v2", d.register_host) &&
         find(library, "cuMemHostUnregister", d.unregister_host) &&
         find(library, "cuGetErrorName", d.error_name);
}

struct Libraries {
  unsigned long long loads = 0;  // ever
  unsigned long long looked_at = 0;
  bool has_cuda = false;
};

/// Looks only if a library was loaded since `looked_at`.
Libraries look_for_cuda(unsigned long long looked_at) {
  Libraries found{.looked_at = looked_at};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* into) {
        Libraries& l = *static_cast<Libraries*>(into);
        l.loads = info->dlpi_adds;
        if (l.loads == l.looked_at) return 1;
        const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
        l.has_cuda = path.substr(path.rfind('/') + 1).starts_with("libcuda.so");
        return l.has_cuda ? 1 : 0;
      },
      &found);
  return found;
}

}  // namespace

const Driver* Driver::loaded() {
  static std::atomic<const Driver*> found{nullptr};
  static std::atomic<unsigned long long> looked_at{0};
  if (const Driver* known = found.load(std::memory_order_acquire)) return known;
  const Libraries libraries = look_for_cuda(looked_at.load(std::memory_order_relaxed));
  looked_at.store(libraries.loads, std::memory_order_relaxed);
  // Not by a dlopen() that fails: it would replace what the program's next dlerror() says.
  if (!libraries.has_cuda) return nullptr;
  // Stays loaded from here on, whoever closes it.
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  Driver driver;
  if (!find_all(library, driver)) {
    dlclose(library);
    return nullptr;
  }
  static const Driver the = driver;
  found.store(&the, std::memory_order_release);
  return &the;
}

std::string Driver::name_of(Result error) const {
  const char* name = nullptr;
  if (error_name(error, &name) == kSuccess && name != nullptr) return name;
  return fmt::format("CUDA error {}", error);
}

Pointer look_up(const Driver& driver, std::uint64_t address) {
  // Whatever the driver takes for an attribute's size, there is room.
  struct Values {
    alignas(8) std::uint64_t type = 0, context = 0, buffer = 0, managed = 0, device = 0;
  } values;
  std::array which{PointerAttribute::memory_type, PointerAttribute::context,
                   PointerAttribute::buffer_id, PointerAttribute::is_managed,
                   PointerAttribute::device_ordinal};
  std::array<void*, which.size()> into{&values.type, &values.context, &values.buffer,
                                       &values.managed, &values.device};
  if (driver.pointer_attributes(which.size(), which.data(), into.data(), address) != kSuccess) {
    return {};
  }
  return {.type = static_cast<MemoryType>(static_cast<std::uint32_t>(values.type)),
          .context = reinterpret_cast<Context>(values.context),
          .buffer = values.buffer,
          .managed = static_cast<std::uint32_t>(values.managed) != 0,
          .device = static_cast<Device>(static_cast<std::uint32_t>(values.device))};
}

Current::Current(const Driver& driver, Context context)
    : driver_{driver}, pushed_{driver.push_context(context) == kSuccess} {
  if (driver_.exchange_capture_mode != nullptr) driver_.exchange_capture_mode(&capture_mode_);
}

Current::~Current() {
  if (driver_.exchange_capture_mode != nullptr) driver_.exchange_capture_mode(&capture_mode_);
  Context popped = nullptr;
  if (pushed_) driver_.pop_context(&popped);
}

}  // namespace verbena::memory::cuda
