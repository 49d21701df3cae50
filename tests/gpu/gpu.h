#pragma once

// As much of CUDA's driver as the tests need, found at run time.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace verbena::test {

class Gpu {
 public:
  /// The first one, with its primary context current in this thread. Throws what is missing.
  Gpu() {
    if (library_ == nullptr) throw std::runtime_error{std::string{"no GPU: "} + dlerror()};
    call<int(unsigned)>("cuInit", 0u);
    int device = 0;
    call<int(int*, int)>("cuDeviceGet", &device, 0);
    void* context = nullptr;
    call<int(void**, int)>("cuDevicePrimaryCtxRetain", &context, device);
    call<int(void*)>("cuCtxSetCurrent", context);
  }

  [[nodiscard]] std::uint64_t allocate(std::size_t bytes) const {
    std::uint64_t at = 0;
    call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2", &at, bytes);
    return at;
  }
  void release(std::uint64_t at) const { call<int(std::uint64_t)>("cuMemFree_v2", at); }
  void copy_in(std::uint64_t to, const void* from, std::size_t bytes) const {
    call<int(std::uint64_t, const void*, std::size_t)>("cuMemcpyHtoD_v2", to, from, bytes);
    // It may return when the driver has the bytes, but the GPU hasn't.
    call<int()>("cuCtxSynchronize");
  }
  void copy_out(void* to, std::uint64_t from, std::size_t bytes) const {
    call<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2", to, from, bytes);
  }
  /// The driver's function, called. Throws if it fails.
  template <typename F, typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    auto* const function = reinterpret_cast<F*>(dlsym(library_, name));
    if (function == nullptr) throw std::runtime_error{std::string{"libcuda has no "} + name};
    if (const int code = function(arguments...); code != 0) {
      throw std::runtime_error{std::string{name} + ": CUDA error " + std::to_string(code)};
    }
  }

 private:
  void* library_ = dlopen("libcuda.so.1", RTLD_NOW);
};

}  // namespace verbena::test
