#include "labs/gpu/driver.h"

#include <dlfcn.h>

#include "labs/common/lab.h"

namespace gpu {
namespace {

constexpr Result kStubLibrary = 34;
constexpr Result kNoDevice = 100;

template <typename F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  if (function == nullptr) {
    throw lab::Skipped{fmt::format("libcuda.so.1 has no {}: this driver is too old", name)};
  }
}

void find_all(void* library, Driver& d) {
  find(library, "cuInit", d.init);
  find(library, "cuGetErrorName", d.error_name);
  find(library, "cuGetErrorString", d.error_text);
  find(library, "cuDeviceGetCount", d.device_count);
  find(library, "cuDeviceGet", d.device);
  find(library, "cuDeviceGetName", d.device_name);
  find(library, "cuDevicePrimaryCtxRetain", d.retain_context);
  find(library, "cuCtxSetCurrent", d.set_context);
  find(library, "cuCtxSynchronize", d.wait_for_context);
  find(library, "cuMemAlloc_v2", d.allocate);
  find(library, "cuMemFree_v2", d.release);
  find(library, "cuMemHostAlloc", d.allocate_pinned);
  find(library, "cuMemFreeHost", d.release_pinned);
  find(library, "cuStreamCreate", d.create_stream);
  find(library, "cuStreamSynchronize", d.wait_for_stream);
  find(library, "cuMemcpyDtoHAsync_v2", d.to_host);
  find(library, "cuMemcpyHtoDAsync_v2", d.to_device);
  find(library, "cuModuleLoadData", d.load_module);
  find(library, "cuModuleGetFunction", d.find_kernel);
  find(library, "cuLaunchKernel", d.launch);
  d.export_range =
      reinterpret_cast<decltype(d.export_range)>(dlsym(library, "cuMemGetHandleForAddressRange"));
}

}  // namespace

Driver::Driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);  // stays: the driver has threads
  if (library == nullptr) throw lab::Skipped{fmt::format("no NVIDIA driver: {}", dlerror())};
  find_all(library, *this);
  const Result started = init(0);
  if (started == kNoDevice || started == kStubLibrary) {
    throw lab::Skipped{"there is a libcuda.so.1, but it finds no GPU; does nvidia-smi list one?"};
  }
  check(started, "cuInit");
}

void Driver::check(Result result, const std::string& call) const {
  if (result == 0) return;
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(result, &name) != 0 || error_text(result, &text) != 0) {
    throw lab::Failed{fmt::format("{}: CUDA error {}", call, result)};
  }
  throw lab::Failed{fmt::format("{}: {} ({})", call, name, text)};
}

}  // namespace gpu
